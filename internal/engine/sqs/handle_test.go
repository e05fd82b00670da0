package sqs

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/faults/wire"
)

// TestARefusedHandleIsNotTriedAgain: SQS answers an expired handle with a code that its model
// does not name, and with the names of the older protocol in a header.
func TestARefusedHandleIsNotTriedAgain(t *testing.T) {
	for code, refused := range map[string]bool{
		"ReceiptHandleIsInvalid":                    true,
		"MessageNotInflight":                        true,
		"AWS.SimpleQueueService.MessageNotInflight": true,
		"InvalidParameterValue":                     true, // the receipt handle has expired
		"InvalidParameterValueException":            true,
		"RequestThrottled":                          false,
		"InternalFailure":                           false,
		"AWS.SimpleQueueService.NonExistentQueue":   false,
		"AccessDeniedException":                     false,
	} {
		cfg := wire.Start(t, func(string, []byte) wire.Answer { return wire.Answer{Status: 400, Error: code} })
		q := New(sqs.NewFromConfig(cfg), "http://127.0.0.1/queue", queue.Normal, queue.Standard)
		for what, err := range map[string]error{
			"delete": q.Delete(t.Context(), "handle"), "hide": q.ChangeVisibility(t.Context(), "handle", time.Minute),
		} {
			if err == nil || queue.Refused(err) != refused {
				t.Errorf("%s, %s: error %v, refused %t, want %t", what, code, err, queue.Refused(err), refused)
			}
		}
	}
}
