package kube

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestStateOf: what a pod says about its end, or about what it waits for.
func TestStateOf(t *testing.T) {
	const running = `"containerStatuses":[{"name":"main","state":{"running":{}}}]`
	terminated := func(reason string) string {
		return `"containerStatuses":[{"name":"main","state":{"terminated":{"reason":"` + reason + `","exitCode":137}}}]`
	}
	const disrupted = `"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]`
	for _, c := range []struct {
		what, metadata, status string
		running                bool
		ended, waits           string
	}{
		{"runs", ``, `"phase":"Running",` + running, true, "", ""},
		{"waits for a node", ``, `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes"}]`, false, "", "Unschedulable: 0/1 nodes"},
		{"OOM-killed", ``, `"phase":"Failed",` + terminated("OOMKilled"), false, "container main of pod p ended: OOMKilled, exit status 137", ""},
		{"evicted by its node", ``, `"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."`, false, "pod p: Evicted: The node was low on resource: memory.", ""},
		{"deleted", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, `"phase":"Running",` + terminated("Error"), false, "pod p was deleted", ""},
		{"deleted before it ran", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, `"phase":"Pending"`, false, "pod p was deleted", ""},
		{"its node is lost", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, `"phase":"Failed",` + disrupted, false,
			"pod p has ended: failed: DeletionByTaintManager: Taint manager: deleting due to NoExecute taint", ""},
		{"may still run on a node that does not answer", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`, `"phase":"Running",` + disrupted + `,` + running, true, "", ""},
	} {
		var o unstructured.Unstructured
		if err := json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"`+c.metadata+`},"status":{`+c.status+`}}`), &o.Object); err != nil {
			t.Fatal(err)
		}
		if st := stateOf(&o, "main"); st.running != c.running || st.ended != c.ended || st.waits != c.waits {
			t.Errorf("%s: %+v", c.what, st)
		}
	}
}
