export { h, render, Fragment } from 'preact';
export { jsx, jsxs } from 'preact/jsx-runtime';
export { useEffect, useLayoutEffect, useRef, useState, useMemo, useCallback } from 'preact/hooks';
export { signal, computed, effect, batch, untracked, useSignal, useComputed, useSignalEffect } from '@preact/signals';
