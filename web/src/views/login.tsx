// The page for browsers that are not logged in.
import { useState } from 'preact/hooks';
import { leftShare, logIn, loginError, shared } from '../net/login.js';
import { kickAll } from '../net/conn.js';

export function LoginPage({ over }: { over: boolean }) {
  const [token, setToken] = useState('');
  const submit = async () => {
    if (await logIn({ token })) kickAll();
    setToken('');
  };
  if (over && shared.value) {
    return (
      <main class="login"><div class="card">
        {leftShare.value ? <><h1>You have been logged out</h1><p>The share goes on. Its link shows it again, if there is room for another viewer.</p></> : <><h1>This share has ended</h1><p>It has expired, or was revoked. Ask for a new link.</p></>}
      </div></main>
    );
  }
  return (
    <main class="login">
      <div class="card">
        <h1>{over ? 'Your login has ended' : 'Log in to TRL'}</h1>
        <p>Run this where the daemon runs. It opens this page, or prints an address to open:</p>
        <pre>trl open</pre>
        {loginError.value && <p class="bad wrap" role="alert">{loginError.value}</p>}
        <details>
          <summary>Log in with a token</summary>
          <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
            <p class="dim">The token is exchanged for a login and not stored. <code>trl http</code> prints the file that has it.</p>
            <label class="field"><span>Token</span><input type="password" autocomplete="off" value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label>
            <footer><button type="submit" class="primary" disabled={!token}>Log in</button></footer>
          </form>
        </details>
      </div>
    </main>
  );
}
