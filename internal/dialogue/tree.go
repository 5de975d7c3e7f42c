package dialogue

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/transcript"
)

// keepTree is how long the transcript stays in memory after a call. The next page, and the next
// event, then cost little.
const keepTree = 30 * time.Second

// sharedTree is the transcript in memory, while callers ask for it.
type sharedTree struct {
	mu    sync.Mutex
	tree  *transcript.Tree // guarded by mu; nil if nothing is kept
	at    int64            // guarded by mu; the end of the events that tree has, in the file
	timer *time.Timer      // guarded by mu; drops tree
}

// withTree calls f with the transcript. f must not keep it.
func (d *Dialogue) withTree(f func(*transcript.Tree) error) error {
	if err := d.index(); err != nil {
		return err
	}
	file, err := d.openEvents()
	if err != nil {
		return err
	}
	defer file.Close()
	s := &d.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	size, _, _, _ := d.record.state()
	if s.tree == nil || s.at > size { // a damaged end of the file was put aside
		s.tree, s.at = transcript.NewTree(), 0
	}
	in := json.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(file, s.at, size-s.at), 1<<16))
	for err == nil {
		var ev api.DialogueEvent
		if err = in.Decode(&ev); err == nil {
			s.tree.Apply(ev)
		}
	}
	if err != io.EOF {
		s.tree = nil
		return d.unreadable(err)
	}
	s.at = size
	if s.timer == nil {
		s.timer = time.AfterFunc(keepTree, s.drop)
	} else {
		s.timer.Reset(keepTree)
	}
	return f(s.tree)
}

func (s *sharedTree) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.at = nil, 0
}

// Transcript returns the transcript, or a page of it.
func (d *Dialogue) Transcript(p api.DialogueTranscriptParams) (r api.DialogueTranscriptResult, err error) {
	err = d.withTree(func(t *transcript.Tree) (err error) {
		r, err = t.Page(p)
		return err
	})
	r.DialogueID = d.id
	return r, err
}

// Item returns one item of the transcript.
func (d *Dialogue) Item(p api.DialogueItemParams) (r api.DialogueItemResult, err error) {
	err = d.withTree(func(t *transcript.Tree) (err error) {
		r, err = t.Item(p)
		return err
	})
	r.DialogueID = d.id
	return r, err
}

// Search finds a text in the transcript.
func (d *Dialogue) Search(p api.DialogueSearchParams) (r api.DialogueSearchResult, err error) {
	err = d.withTree(func(t *transcript.Tree) (err error) {
		r, err = t.Search(p)
		return err
	})
	r.DialogueID = d.id
	return r, err
}
