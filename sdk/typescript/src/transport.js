/** Calls `then` when the signal is aborted, until the returned function is called. */
export function onAbort(signal, then) {
    if (!signal)
        return () => { };
    const listener = () => then(signal.reason);
    if (signal.aborted)
        listener();
    else
        signal.addEventListener("abort", listener, { once: true });
    return () => signal.removeEventListener("abort", listener);
}
