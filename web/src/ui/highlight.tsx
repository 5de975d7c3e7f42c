// Code with colours: comments, strings, numbers and keywords. It knows families of languages, not
// languages, so it is small; what it does not know stays plain. Every pattern takes time in
// proportion to the text, and nothing becomes HTML.
import type { ComponentChildren } from 'preact';

const MOST = 20_000; // characters; longer code stays plain

const words = (s: string) => new Set(s.split(' '));
const curly = words('abstract as async await bool boolean break byte case catch char class const continue default defer delete do double else enum export extends extern false final finally float fn for foreach from func function go goto if impl implements import in int interface internal is let long loop map match mod module mut namespace new nil null object of override package private protected pub public range return select self static string struct super switch this throw throws trait true try type typeof undefined unsafe use using val var virtual void when where while with yield');
const script = words('alias and as assert async await begin break case class continue def del do done elif else elsif end ensure esac except export exit false fi finally for from function global if import in is lambda local module nil None not null or pass raise readonly require rescue return self set shift source then True False true try unless unset until when while with yield');
const query = words('add all alter and as asc begin between by case commit constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then transaction union unique update values view when where with');
const data = words('true false null yes no on off');

const STRINGS = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
const REST = String.raw`|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_$][\w$]*)`;
const slashes = { keywords: curly, pattern: String.raw`(?<comment>//[^\n]*|/\*[^]*?(?:\*/|$))|(?<string>${STRINGS}|${'`'}(?:\\.|[^${'`'}\\])*${'`'}?)` + REST };
const hashes = { keywords: script, pattern: String.raw`(?<comment>#[^\n]*)|(?<string>"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${STRINGS})` + REST };
const dashes = { keywords: query, pattern: String.raw`(?<comment>--[^\n]*|/\*[^]*?(?:\*/|$))|(?<string>${STRINGS})` + REST };
const lifetimes = { keywords: curly, pattern: String.raw`(?<comment>//[^\n]*|/\*[^]*?(?:\*/|$))|(?<string>"(?:\\.|[^"\\])*"?)` + REST };
const plainData = { keywords: data, pattern: hashes.pattern };

type Family = { keywords: Set<string>; pattern: string };
const families: [Family, string][] = [
  [slashes, 'c h cc cpp c++ cxx hpp cs csharp d dart go golang groovy java javascript js jsx mjs kotlin kt objc php proto protobuf scala scss swift ts tsx typescript zig'], [lifetimes, 'rs rust'],
  [hashes, 'bash console dockerfile elixir ex fish make makefile perl pl ps1 py python r rb ruby sh shell zsh'], [plainData, 'conf hcl ini json json5 jsonc properties terraform tf toml yaml yml'], [dashes, 'mysql pgsql plsql postgresql sql sqlite'],
];
const byName = new Map(families.flatMap(([family, names]) => names.split(' ').map((n) => [n, family] as const)));

/** The code as text and coloured elements. */
export function highlight(code: string, lang: string): ComponentChildren {
  const family = byName.get(lang.toLowerCase());
  if (!family || code.length > MOST) return code;
  const out: ComponentChildren[] = [];
  let plain = 0; // where the text begins that has no colour
  for (const m of code.matchAll(new RegExp(family.pattern, 'g'))) {
    const g = m.groups!;
    const kind = g['comment'] !== undefined ? 'c' : g['string'] !== undefined ? 's' : g['number'] !== undefined ? 'n' : family.keywords.has(family === dashes ? m[0].toLowerCase() : m[0]) ? 'k' : '';
    if (!kind) continue;
    if (m.index > plain) out.push(code.slice(plain, m.index));
    out.push(<span key={m.index} class={'hl-' + kind}>{m[0]}</span>);
    plain = m.index + m[0].length;
  }
  out.push(code.slice(plain));
  return out;
}
