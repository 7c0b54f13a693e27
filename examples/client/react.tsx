// A page in React: log in, choose a branch, call a service, log out.
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { type Next, PlatformClient } from 'platform-gateway-client';

const client = new PlatformClient({ base: 'http://localhost:8080', dpop: true });

interface Shown { said?: string; next?: Next }

function Page() {
  const [{ said, next }, show] = useState<Shown>({});
  const run = (work: () => Promise<Shown | void>) => work().then((now) => show(now ?? {}),
    (error) => show((old) => ({ ...old, said: error.code })));
  const login = (form: FormData) => run(async () => {
    const asked = await client.login(`${form.get('account')}`, `${form.get('credential')}`);
    return { said: asked.type, next: asked };
  });
  useEffect(() => {
    const resume = () => run(() => client.restore().then(() => {}));
    resume();
    const off = [client.on('signedOut', () => show({ said: 'Logged out' })),
      client.on('sessionChanged', resume), client.on('branchChanged', resume)];
    return () => off.forEach((stop) => stop());
  }, []);
  return <>
    {!client.signedIn && <form action={login}><input name="account" aria-label="Account" />
      <input name="credential" type="password" aria-label="Credential" />
      <button>Log in</button></form>}
    {!client.signedIn && next?.type === 'verify_factor' && <form action={(form) => run(() =>
      client.verifyFactor(next, 'totp', `${form.get('code')}`).then(() => {}))}>
      <input name="code" aria-label="Code" /><button>Confirm</button></form>}
    {client.branches.map((branch) => <button key={branch.branchId} onClick={() =>
      run(() => client.selectBranch(branch.branchId))}>{branch.branchName}</button>)}
    {client.ready && <button onClick={() => run(async () => ({ said: await (
      await client.fetch('/api/workspaces/current-context')).text() }))}>Call</button>}
    {client.signedIn && <button onClick={() => run(() => client.logout())}>Log out</button>}
    <pre>{said}</pre></>;
}
createRoot(document.getElementById('root')!).render(<Page />);
