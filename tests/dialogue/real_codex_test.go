package dialogue_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestCodexModels: the models that can be chosen are known, also after a restart.
func TestCodexModels(t *testing.T) {
	r := codex.use(t, behaviour{}).open()
	testkit.Eventually(t, "the models are known", func() bool { return len(r.info(r.id).Models) > 0 })
	model := r.info(r.id).Models[0]
	testkit.Must(r.DialogueSet(r.ctx, api.DialogueSetParams{DialogueID: r.id, Model: model}))(r.world)
	if turn := r.talk("turn1"); turn.Outcome != "completed" || r.info(r.id).Model != model {
		t.Errorf("with %s: %+v, %+v", model, turn, r.info(r.id))
	}
	r.survives()
}
