package chat

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// reports tells this program to print whether a shell could continue it, instead of testing.
const reports = "TRL_TEST_CAN_CONTINUE"

func TestMain(m *testing.M) {
	if os.Getenv(reports) != "" {
		fmt.Print(canContinue())
		return
	}
	goleak.VerifyTestMain(m)
}
