package service

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestCallersShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		finish, finds := make(chan struct{}), 0
		find := func(ctx context.Context) (int, error) {
			finds++ // one caller at a time
			select {
			case <-finish:
				return finds, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		first, giveUp := context.WithCancel(t.Context())
		given := make(chan error)
		go func() {
			_, err := s.get(first, find)
			given <- err
		}()
		synctest.Wait()
		var others sync.WaitGroup
		for range 10 {
			others.Go(func() {
				if n, err := s.get(t.Context(), find); n != 2 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
		impatient, leave := context.WithCancel(t.Context())
		others.Go(func() {
			if _, err := s.get(impatient, find); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		giveUp()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait() // one of the others finds it now
		close(finish)
		others.Wait()
		if n, err := s.get(t.Context(), find); n != 3 || err != nil {
			t.Errorf("a later caller: %d, %v", n, err)
		}
	})
}
