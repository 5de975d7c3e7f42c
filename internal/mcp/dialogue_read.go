package mcp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

func (c *conn) dialogueRead(ctx call, in dialogueReadInput) (string, error) {
	id, err := c.dialogueOf(in.Dialogue)
	if err != nil {
		return "", err
	}
	if in.Raw != "" {
		return c.readRaw(ctx, id, in)
	}
	if in.Epoch != 0 {
		return "", api.Errorf(api.CodeInvalidParams, "epoch: is only for raw; the transcript covers all processes")
	}
	tr, err := c.Service.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: id})
	if err != nil {
		return "", err
	}
	var all strings.Builder
	writeItems(&all, tr.Items, "", in.Full)
	text, limit := all.String(), int(bytesOr(in.MaxBytes))
	from := int(min(max(in.Offset, 0), int64(len(text))))
	if in.Tail > 0 {
		from = max(len(text)-int(min(in.Tail, int64(limit))), 0)
	}
	to := min(from+limit, len(text))
	var b strings.Builder
	b.WriteString(strings.ToValidUTF8(text[from:to], ""))
	if to < len(text) {
		fmt.Fprintf(&b, "\n[%s bytes more: dialogue_read {\"dialogue\": %q, \"offset\": %d}]\n", number(int64(len(text)-to)), tr.DialogueID, to)
	}
	for _, r := range tr.Requests {
		if r.How == "" && to == len(text) {
			b.WriteString(requestText(tr.DialogueID, r))
		}
	}
	fmt.Fprintf(&b, "[%s is %s; %d turns, %s bytes]", tr.DialogueID, tr.State, len(tr.Turns), number(int64(len(text))))
	return b.String(), nil
}

// maxRaw is the most that one dialogue.raw returns.
const maxRaw = 4 << 20

// readRaw reads the stdout or stdin of the agent's program.
func (c *conn) readRaw(ctx call, id string, in dialogueReadInput) (string, error) {
	if in.Raw != api.EventStdout && in.Raw != "stdin" {
		return "", api.Errorf(api.CodeInvalidParams, "raw: %.40q must be stdout or stdin", in.Raw)
	}
	limit := min(bytesOr(in.MaxBytes), maxRaw)
	p := api.DialogueRawParams{DialogueID: id, Stream: in.Raw, Epoch: in.Epoch, Offset: in.Offset, Limit: &limit}
	if in.Tail > 0 {
		one := int64(1)
		begin, err := c.Service.DialogueRaw(ctx, api.DialogueRawParams{DialogueID: id, Stream: in.Raw, Epoch: in.Epoch, Limit: &one})
		if err != nil {
			return "", err
		}
		p.Epoch, p.Offset = begin.Epoch, max(begin.Total-min(in.Tail, limit), 0)
	}
	r, err := c.Service.DialogueRaw(ctx, p)
	if err != nil {
		return "", err
	}
	data := api.Data(r.Data, r.DataBase64)
	if r.Offset+int64(len(data)) < r.Total {
		data = wholeCharacters(data)
	}
	end := r.Offset + int64(len(data))
	var b strings.Builder
	b.WriteString(strings.ToValidUTF8(string(data), "\uFFFD"))
	switch {
	case end < r.Total:
		fmt.Fprintf(&b, "\n[%s bytes more: dialogue_read {\"dialogue\": %q, \"raw\": %q, \"epoch\": %d, \"offset\": %d}]", number(r.Total-end), r.DialogueID, in.Raw, r.Epoch, end)
	case r.Complete:
		fmt.Fprintf(&b, "\n[end of %s of process %d, %s bytes]", in.Raw, r.Epoch, number(r.Total))
	default:
		fmt.Fprintf(&b, "\n[%s of process %d, %s bytes until now]", in.Raw, r.Epoch, number(r.Total))
	}
	return b.String(), nil
}

// writeItems writes a transcript, with the items of subagents indented below their tool calls.
func writeItems(b *strings.Builder, items []api.DialogueItem, margin string, full bool) {
	put := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString(margin + strings.ReplaceAll(text, "\n", "\n"+margin) + "\n")
		}
	}
	for _, it := range items {
		text := plainText(it.Parts)
		switch {
		case it.Tool != nil:
			put(toolLine(it.Tool))
			if full {
				put("input: " + string(it.Tool.Input))
			}
			writeItems(b, it.Tool.Items, margin+"  ", full)
			if output := strings.TrimSpace(plainText(it.Tool.Output)); full {
				put(output)
			} else if strings.Contains(output, "\n") {
				put(shorten(output, shortOutput, ""))
			}
		case it.Kind == "user":
			put("> " + text)
		case it.Kind != "reasoning":
			put(text)
		case full:
			put("(thinks) " + text)
		}
	}
}

// wholeCharacters drops an incomplete UTF-8 character at the end of data.
func wholeCharacters(data []byte) []byte {
	for n := range min(utf8.UTFMax, len(data)) {
		if utf8.Valid(data[:len(data)-n]) {
			return data[:len(data)-n]
		}
	}
	return data
}
