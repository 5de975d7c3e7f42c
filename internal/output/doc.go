// Package output has the output log of one exec. A log is bounded, and addressed by byte offset
// within a stream and by sequence number over both streams.
//
// There is one writer and any number of readers. Readers pull; they copy bytes without holding the
// lock, so a slow or stuck reader costs the writer nothing.
//
// # Records
//
// The output is divided into records, which are numbered from 1, without gaps, over both streams. A
// record is a piece of one stream of at most MaxRecord bytes. New bytes of the same stream extend
// the last record until a reader has seen it. So small writes are joined while readers are busy
// elsewhere, and a record that a reader has seen never changes.
//
// A record does not end inside a UTF-8 sequence if the rest of the sequence arrives within 50 ms:
// the first bytes of the sequence are held back until then, and published with the rest. So a
// reader can pass on each record as text, and a reader that continues after a number misses and
// repeats nothing.
//
// # Bounds
//
// A stream is stored in pages of up to 64 KiB. A page holds bytes from its
// front and the index of its records from its back, and a record never leaves
// its page. So dropping a page drops whole records together with their index,
// and one bound covers both. The first limit/2 bytes of a stream (the head) and
// the last limit/2 (the tail) are kept, rounded up to whole pages; pages between
// them are dropped and reused for new bytes. So each stream has at most one gap,
// and the totals stay exact.
//
// An index entry takes six bytes. An index of up to an eighth of the data does not count; a larger
// one counts against the limit. So a flood of tiny writes that alternate between the streams keeps
// fewer than limit bytes instead of taking more memory. A log takes at most about 2.4 * limit plus
// 800 KiB, and close to 2 * limit for ordinary output.
//
// Logs belong to a Store, which limits the memory of all of them together: beyond
// the limit, the pages that have been full for longest move to an unnamed file.
package output
