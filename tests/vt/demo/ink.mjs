// A program made with Ink: a list, a text field, a bar and a log that scrolls away.
import React, { useEffect, useState } from 'react';
import { Box, Static, Text, render, useApp, useInput, useStdout } from 'ink';

const h = React.createElement;
const trees = ['apple', 'pear', 'quince', 'りんご apple of Japan'];

function Orchard() {
  const { exit } = useApp();
  const { stdout } = useStdout();
  const [at, setAt] = useState(0);
  const [text, setText] = useState('');
  const [done, setDone] = useState(0);
  const [log, setLog] = useState([]);
  useEffect(() => {
    if (done === 0 || done >= 20) return undefined;
    const timer = setTimeout(() => {
      setDone(done + 1);
      if (done % 4 === 0) setLog([...log, `✔ shaken ${trees[at]} ${done} times`]);
    }, 25);
    return () => clearTimeout(timer);
  }, [done]);
  useInput((input, key) => {
    if (key.upArrow) setAt((at + trees.length - 1) % trees.length);
    else if (key.downArrow) setAt((at + 1) % trees.length);
    else if (key.return) setDone(1);
    else if (key.backspace || key.delete) setText(text.slice(0, -1));
    else if (input === 'q') exit();
    else setText(text + input);
  });
  return h(Box, { flexDirection: 'column' },
    h(Static, { items: log }, (line, i) => h(Text, { key: i, color: 'green' }, line)),
    h(Box, { borderStyle: 'round', borderColor: 'cyan', paddingX: 1, flexDirection: 'column' },
      h(Text, { bold: true }, 'Which tree to ', h(Text, { color: '#ff8800', underline: true }, 'harvest'), '?'),
      ...trees.map((tree, i) => h(Text, { key: tree, color: i === at ? 'magenta' : undefined, inverse: i === at }, (i === at ? '❯ ' : '  ') + tree))),
    h(Box, { borderStyle: 'double', justifyContent: 'space-between' }, h(Text, { dimColor: true }, '› ', text || 'type…'), h(Text, { italic: true }, `${stdout.columns} columns`)),
    done > 0 && h(Text, { color: 'yellow' }, '█'.repeat(done) + '░'.repeat(20 - done) + ` ${done * 5} %`));
}

process.stdout.write('\u001b]0;✳ orchard\u0007');
render(h(Orchard));
