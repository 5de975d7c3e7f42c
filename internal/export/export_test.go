package export_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// FuzzOpen reads from arbitrary bytes. None of them may cause a panic or leave memory in use.
func FuzzOpen(f *testing.F) {
	var log bytes.Buffer
	l := output.New(output.NewStore(output.StoreConfig{}), 1000)
	l.Append(output.Stdout, []byte("hello"))
	l.Mark()
	l.Close()
	if err := l.Save(&log); err != nil {
		f.Fatal(err)
	}
	for _, directory := range []string{
		`{"version":1,"result":{"execs":[{"exec_id":"x","state":"closed","outcome":{"exit_code":0,"stdout_bytes":5}}]},"logs":[{"exec_id":"x","at":0,"len":%d,"mark":2}]}`,
		`{"version":1,"result":{"execs":[{"exec_id":"x"}]},"logs":[{"exec_id":"x","at":3,"len":%d,"mark":-2,"error":{"code":"X"}}]}`,
		`{"version":1,"logs":[],"screen":{"cols":80,"rows":24,"at":1,"len":%d}}`, `{"version":1,"logs":[],"screen":{"at":0,"len":%d}}`,
		`{"version":2,"logs":[]}%d`, `{"version":1,"logs":[{"exec_id":"x","at":-1,"len":9223372036854775807}]}%d`, `{}%d`, `[%d`,
	} {
		text := fmt.Sprintf(directory, log.Len())
		f.Add(binary.BigEndian.AppendUint64(append(log.Bytes()[:log.Len():log.Len()], text...), uint64(len(text))))
	}
	f.Fuzz(func(t *testing.T, exported []byte) {
		session, err := export.Open(bytes.NewReader(exported), int64(len(exported)))
		if err != nil {
			return
		}
		if _, err := session.Screen(); err != nil {
			t.Errorf("the screen that is said to be there: %v", err)
		}
		store := output.NewStore(output.StoreConfig{})
		for _, e := range session.Result.Execs {
			x, err := session.Load(store, e.ExecID)
			if err != nil {
				continue
			}
			for after := range int64(5) {
				_, _, _ = x.Read(t.Context(), link.ReadParams{ExecID: e.ExecID, AfterSeq: after, Limit: 100, Wait: true}, nil)
				_, _, _ = x.Output(t.Context(), link.OutputParams{ExecID: e.ExecID, Stream: "stdout", Offset: after, Limit: 100, Wait: true})
			}
			x.Log.Release()
		}
		if store.Kept() != 0 {
			t.Errorf("%d bytes stay", store.Kept())
		}
	})
}
