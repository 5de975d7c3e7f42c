package vt

import "sync"

// charset is a character set by the byte that designates it; ascii is the usual one.
type charset byte

const ascii charset = 0

// charsets says which characters differ from ASCII: pairs of the ASCII character and what is shown.
var charsets = map[charset]string{
	'0': "`◆a▒b␉c␌d␍e␊f°g±h␤i␋j┘k┐l┌m└n┼o⎺p⎻q─r⎼s⎽t├u┤v┴w┬x│y≤z≥{π|≠}£~·",
	'A': "#£",
	'4': "#£@¾[i\\½]|{¨|f}¼~´",
	'C': "[Ä\\Ö]Å^Ü`é{ä|ö}å~ü",
	'E': "@Ä[Æ\\Ø]Å^Ü`ä{æ|ø}å~ü",
	'H': "@É[Ä\\Ö]Å^Ü`é{ä|ö}å~ü",
	'K': "@§[Ä\\Ö]Ü{ä|ö}ü~ß",
	'Q': "@à[â\\ç]ê^î`ô{é|ù}è~û",
	'R': "#£@à[°\\ç]§{é|ù}è~¨",
	'Y': "#£@§[°\\ç]é`ù{à|ò}è~ì",
	'Z': "#£@§[¡\\Ñ]¿{°|ñ}ç",
	'=': "#ù@à[é\\ç]ê^î_è`ô{ä|ö}ü~û",
}

// sameCharsets are designations with a second name.
var sameCharsets = map[charset]charset{'5': 'C', '6': 'E', '7': 'H'}

// designated is the charset that a final byte of SCS stands for, if it is known.
func designated(final byte) (c charset, known bool) {
	if final == 'B' {
		return ascii, true
	}
	c = charset(final)
	if same, ok := sameCharsets[c]; ok {
		c = same
	}
	_, known = charsets[c]
	return c, known
}

var translations = sync.OnceValue(func() map[charset]*[128]rune {
	all := make(map[charset]*[128]rune, len(charsets))
	for c, pairs := range charsets {
		var table [128]rune
		for i := range table {
			table[i] = rune(i)
		}
		from := rune(0)
		for _, r := range pairs {
			if from == 0 {
				from = r
				continue
			}
			table[from] = r
			from = 0
		}
		all[c] = &table
	}
	return all
})

func (c charset) translate(r rune) rune { return translations()[c][r] }
