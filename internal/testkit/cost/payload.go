package cost

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// payloadSent returns the bytes of messages in a request to SQS.
func payloadSent(in any) int {
	switch p := in.(type) {
	case *sqs.SendMessageInput:
		return message(p.MessageBody, p.MessageAttributes)
	case *sqs.SendMessageBatchInput:
		sum := 0
		for _, e := range p.Entries {
			sum += message(e.MessageBody, e.MessageAttributes)
		}
		return sum
	}
	return 0
}

// payloadReceived returns the bytes of messages in an answer of SQS; ok is false for
// an operation whose answers carry no messages.
func payloadReceived(result any) (bytes int, ok bool) {
	r, ok := result.(*sqs.ReceiveMessageOutput)
	if !ok {
		return 0, false
	}
	for _, m := range r.Messages {
		bytes += message(m.Body, m.MessageAttributes)
	}
	return bytes, true
}

func message(body *string, attributes map[string]types.MessageAttributeValue) int {
	n := len(aws.ToString(body))
	for name, v := range attributes {
		n += len(name) + len(aws.ToString(v.DataType)) + len(aws.ToString(v.StringValue)) + len(v.BinaryValue)
	}
	return n
}
