package functions

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/long"
)

// TestFaultsRaiseAlarms breaks the functions in every way that is not a remote server's fault, evaluates the
// template's alarms on the recorded metrics, and expects an alarm for each. By default a fault's
// first five minutes count three times; the long set lives through all of them.
func TestFaultsRaiseAlarms(t *testing.T) {
	t.Parallel()
	const denied, broken = "AccessDeniedException", "InternalServerError"
	accept := func(s *site) { s.submit(s.server.URL + "/inbox") }
	// deliver gives an activity to a deliver function that has just started, with the table as it
	// was when the activity was accepted.
	deliver := func(s *site, before func()) {
		before()
		s.stop()
		s.work()
	}
	for _, c := range []struct {
		fault, rings string
		run          func(s *site) // five minutes of it
	}{
		{"the table is down while activities are accepted", "api-errors", func(s *site) {
			s.aws.fail("dynamodb", broken)
			accept(s)
		}},
		{"the table is down while activities are asked for", "api-errors", func(s *site) {
			s.aws.fail("dynamodb", broken)
			s.call(func(c *client.Client) error {
				_, err := c.Activity(s.Context(), "01KAG3J8Q2V4W6X8Y0Z2A4C6E8")
				return err
			})
		}},
		{"the table is down while activities are delivered", "came-back", func(s *site) {
			deliver(s, func() { accept(s); s.aws.fail("dynamodb", broken) })
			s.aws.fail("dynamodb", "")
		}},
		{"the table is down for the health check", "errors", func(s *site) {
			long.Only(s, "the SDK waits between its tries, many times")
			s.aws.fail("dynamodb", broken)
			s.check()
		}},
		{"the health check may not read the table", "errors", func(s *site) {
			s.aws.fail("Query", denied)
			s.check()
		}},
		{"the API may not write to the table", "api-errors", func(s *site) {
			s.aws.fail("PutItem", denied)
			accept(s)
		}},
		{"the API may not send", "api-errors", func(s *site) {
			s.aws.fail("SendMessage", denied)
			accept(s)
		}},
		{"SQS is down", "api-errors", func(s *site) {
			s.aws.fail("sqs", broken)
			accept(s)
		}},
		{"the API may not seal keys", "api-errors", func(s *site) {
			s.aws.fail("Encrypt", denied)
			s.call(func(c *client.Client) error {
				_, err := c.GenerateKey(s.Context(), keyID+"-2", "ed25519")
				return err
			})
		}},
		{"deliver may not write to the table", "came-back", func(s *site) {
			deliver(s, func() { accept(s); s.aws.fail("PutItem", denied); s.aws.fail("TransactWriteItems", denied) })
			s.aws.fail("PutItem", "")
			s.aws.fail("TransactWriteItems", "")
		}},
		{"deliver may not open keys", "came-back", func(s *site) {
			deliver(s, func() { accept(s); s.aws.fail("Decrypt", denied) })
		}},
		{"KMS is down", "came-back", func(s *site) {
			deliver(s, func() { accept(s); s.aws.fail("kms", broken) })
		}},
		{"deliver may not send", "came-back", func(s *site) {
			deliver(s, func() {
				s.submit(s.server.URL+"/inbox", "http://127.0.0.1:1/inbox") // the second is split off
				s.aws.fail("SendMessage", denied)
				s.aws.fail("SendMessageBatch", denied)
			})
			s.aws.fail("SendMessage", "")
			s.aws.fail("SendMessageBatch", "")
		}},
		{"deliver may not set visibility", "came-back", func(s *site) {
			s.submit("http://127.0.0.1:1/inbox")
			s.work() // splits the recipient off
			s.aws.advance(10 * time.Second)
			s.aws.fail("ChangeMessageVisibility", denied)
			s.work()
		}},
		{"the table is throttled", "table-throttled", func(s *site) {
			deliver(s, func() { accept(s); s.aws.fail("dynamodb", "ProvisionedThroughputExceededException") })
			s.aws.fail("dynamodb", "")
		}},
		{"the schedule does not run", "healthcheck-missing", func(*site) {}},
		{"messages that nobody can read", "dead-letters", func(s *site) {
			if err := s.aws.engine.Queue(queue.Normal).Send(s.Context(), queue.Message{Body: "{"}); err != nil {
				s.Fatal(err)
			}
			s.work()
		}},
		{"a server is down for seven days", "exhausted-servers", func(s *site) {
			s.exhaust()
			s.check()
		}},
		{"a webhook fails for two hours", "webhooks", func(s *site) {
			s.failWebhook()
			s.check()
		}},
		{"deliver may not read its secret", "errors", func(s *site) {
			accept(s)
			s.stop()
			s.env["SIPHER_SECRET_ARN"], s.env["BETTER_AUTH_URL"] = secretARN, "https://social.example"
			s.aws.fail("secretsmanager", denied)
			s.work()
			delete(s.env, "SIPHER_SECRET_ARN")
			delete(s.env, "BETTER_AUTH_URL")
		}},
		{"the deliver function's settings are wrong", "errors", func(s *site) {
			accept(s)
			s.stop()
			s.env["QUEUE_URL_LOW"] = "low"
			s.work()
			s.env["QUEUE_URL_LOW"] = s.env["QUEUE_URL_HIGH"]
		}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			healthy := func() {
				accept(s)
				s.work()
				s.check()
			}
			s.period(healthy)
			if on := s.ringing(); len(on) > 0 {
				t.Fatalf("with nothing broken %v rings", slices.Sorted(maps.Keys(on)))
			}
			lines := s.period(func() { c.run(s) })
			for range 2 {
				if long.On() {
					lines = append(lines, s.period(func() { c.run(s) })...)
				} else {
					s.again()
				}
			}
			on := s.ringing()
			t.Logf("rings: %v", slices.Sorted(maps.Keys(on)))
			if !on[c.rings] {
				t.Errorf("%s does not ring; recorded is %v, printed was\n%s", c.rings, s.recorded, strings.Join(lines, "\n"))
			}
		})
	}
}
