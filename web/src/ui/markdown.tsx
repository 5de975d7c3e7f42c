// Markdown of agents as elements. marked only cuts the text into tokens; nothing is ever HTML. HTML
// in the text is shown as text, pictures of other sites are links, and a link asks before it opens.
import { Lexer, type Token, type Tokens } from 'marked';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { highlight } from './highlight.js';
import { askFirst, copyText, lines } from './parts.js';

const MOST = 100_000; // characters; a longer text is shown as it is

/** The address of a link that may be opened, or nothing. */
export function safe(href: string): string {
  try {
    const u = new URL(href);
    return ['http:', 'https:', 'mailto:'].includes(u.protocol) ? u.href : '';
  } catch {
    return '';
  }
}

export function Link({ href, children }: { href: string; children: ComponentChildren }) {
  const to = safe(href);
  if (!to) return <span title={lines(href)}>{children}</span>;
  return (
    <a class="link" href={to} rel="noopener noreferrer nofollow" target="_blank" title={to} onClick={(e) => {
      e.preventDefault();
      askFirst({ title: 'Open this link?', text: to, yes: 'Open it', run: () => void open(to, '_blank', 'noopener,noreferrer') });
    }}>{children}</a>
  );
}

const entities: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'" };
/** marked escapes some texts for HTML, which this is not. */
function text(s: string): string { return lines(s.replace(/&(?:amp|lt|gt|quot|#39);/g, (m) => entities[m]!)); }

function box(t: Token, i: number) {
  const done = (t as Tokens.Checkbox).checked;
  return <span key={i}><span aria-label={done ? 'done' : 'to do'} role="img" class={done ? 'done' : ''}>{done ? '☑' : '☐'}</span> </span>;
}

function inline(tokens: Token[] | undefined, deep: number): ComponentChildren {
  if (deep > 40) return tokens?.map((t) => lines(t.raw)).join('');
  return tokens?.map((t, i) => {
    switch (t.type) {
      case 'strong': return <strong key={i}>{inline(t.tokens, deep + 1)}</strong>;
      case 'em': return <em key={i}>{inline(t.tokens, deep + 1)}</em>;
      case 'del': return <del key={i}>{inline(t.tokens, deep + 1)}</del>;
      case 'codespan': return <code key={i}>{lines(t.text)}</code>;
      case 'checkbox': return box(t, i);
      case 'br': return <br key={i} />;
      case 'link': return <Link key={i} href={t.href}>{inline(t.tokens, deep + 1)}</Link>;
      case 'image': return <Link key={i} href={t.href}>[picture{t.text ? `: ${lines(t.text)}` : ''}]</Link>;
      case 'escape': return lines(t.text);
      case 'text': return 'tokens' in t && t.tokens ? <span key={i}>{inline(t.tokens, deep + 1)}</span> : text(t.raw);
      default: return lines(t.raw);
    }
  });
}

function blocks(tokens: Token[], deep: number): ComponentChildren {
  if (deep > 40) return <p>{tokens.map((t) => lines(t.raw)).join('')}</p>;
  return tokens.map((t, i) => {
    switch (t.type) {
      case 'space': case 'def': return null;
      case 'heading': return <p key={i} class={`h h${t.depth}`} role="heading" aria-level={Math.min(6, t.depth + 2)}>{inline(t.tokens, deep + 1)}</p>;
      case 'paragraph': return <p key={i}>{inline(t.tokens, deep + 1)}</p>;
      case 'text': return 'tokens' in t && t.tokens ? <span key={i}>{inline(t.tokens, deep + 1)}</span> : <span key={i}>{text(t.raw)}</span>;
      case 'checkbox': return box(t, i);
      case 'hr': return <hr key={i} />;
      case 'code': return <Code key={i} text={t.text} lang={(t.lang ?? '').split(/\s/)[0] ?? ''} />;
      case 'blockquote': return <blockquote key={i}>{blocks(t.tokens ?? [], deep + 1)}</blockquote>;
      case 'list': return <List key={i} list={t as Tokens.List} deep={deep} />;
      case 'table': return <Table key={i} table={t as Tokens.Table} deep={deep} />;
      default: return <p key={i} class="wrap">{lines(t.raw)}</p>;
    }
  });
}

function List({ list, deep }: { list: Tokens.List; deep: number }) {
  const items = list.items.map((it, i) => (
    <li key={i} class={it.task ? 'task' : undefined}>{blocks(it.tokens, deep + 1)}</li>
  ));
  return list.ordered ? <ol start={typeof list.start === 'number' ? list.start : 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table, deep }: { table: Tokens.Table; deep: number }) {
  return (
    <div class="wide-table" tabIndex={0} role="region" aria-label="Table"><table>
      <thead><tr>{table.header.map((c, i) => <th key={i} scope="col">{inline(c.tokens, deep + 1)}</th>)}</tr></thead>
      <tbody>{table.rows.map((r, i) => <tr key={i}>{r.map((c, j) => <td key={j}>{inline(c.tokens, deep + 1)}</td>)}</tr>)}</tbody>
    </table></div>
  );
}

export function Code({ text: code, lang }: { text: string; lang: string }) {
  const drawn = useMemo(() => highlight(lines(code), lang), [code, lang]);
  return (
    <div class="code">
      <div class="code-head"><span class="dim">{lines(lang)}</span><button class="small ghost" onClick={() => void copyText(code)}>Copy</button></div>
      <pre tabIndex={0} aria-label={lang ? `Code in ${lines(lang)}` : 'Code'}><code>{drawn}</code></pre>
    </div>
  );
}

export function Markdown({ text: source }: { text: string }) {
  const tokens = useMemo(() => {
    if (source.length > MOST) return null;
    try {
      return new Lexer({ gfm: true }).lex(source);
    } catch {
      return null;
    }
  }, [source]);
  return <div class="md">{tokens ? blocks(tokens, 0) : <p class="wrap">{lines(source)}</p>}</div>;
}
