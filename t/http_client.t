# examples/client: passes the compiler's strictest checks, also with the types that
# openapi-typescript makes of docs/openapi-frontend.yaml.  Its package for npm, installed,
# asks as docs/openapi.yaml says, and does what it says against the real gateway, identity
# service and PostgreSQL.

use JSON::PP;
use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new(timeout => 900);
my $s = $t->full_stack(env => {
    PLATFORM_AUTH_FACTOR_KEYS => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=',
    PLATFORM_WEBAUTHN_ORIGINS => 'https://app.example.com',
    PLATFORM_PUBLIC_ORIGINS => 'http://127.0.0.1:' . $t->port('gateway'),
});
# Who has to get a second factor.
$s->postgres->sql("insert into accounts (account_name, account_type, credential_hash, factor_required)
    select name, account_type, credential_hash, true from accounts, unnest(array['enrol\@demo.test', 'passkey\@demo.test']) name
     where account_name = 'none\@demo.test'");
my ($dir, $root) = ($t->dir, $t->root);
my $tools = "$root/t/node";
my ($client, $data) = map { $t->read_file("$root/examples/client/$_.ts") } qw(client types);

# The package has what package.json lists, and needs nothing else.

is $t->client_package, '', 'the package installs';
my $package = decode_json($t->read_file('node_modules/platform-gateway-client/package.json'));
is_deeply [ map { $package->{$_} } qw(dependencies peerDependencies optionalDependencies) ],
    [ (undef) x 3 ], 'it depends on nothing';
is_deeply [ sort split /\n/, qx{cd $dir/node_modules/platform-gateway-client && find . -type f} ],
    [ sort map {"./$_"} qw(LICENSE README.md package.json), @{ $package->{files} } ], 'its files';
is_deeply [ grep { !/^-rw-r--r-- / } qx{tar -tvzf $dir/package/*.tgz} ], [],
    'with the same modes, whoever packs it';
for my $page (qw(plain.html react.tsx)) {
    cmp_ok $t->read_file("$root/examples/client/$page") =~ tr/\n//, '<=', 40, "$page is short";
}

# What is right compiles, as strictly as the compiler can, and what is wrong does not:
# one run, since the compiler's start is what it costs.

my $said;
my $types = "import type { OwnSession, Session } from './client';\nexport const f = ";
my $made = "import type { components, operations } from './frontend';
type S = components['schemas'];
type Login = operations['login']['responses'][200]['content']['application/json'];
type Refused = operations['refreshSession']['responses'][409]['content']['application/problem+json'];
";
my %file = (
    'address.ts' => [ 0, 'address may be null', "$types(o: OwnSession): string => o.address;" ],
    'answers.ts' => [ 1, 'the types made of the document are those of the client',
        "import type { Branch, Factors, FactorAsked, Me, OwnSession, Session, SteppedUp } from './client';\n" . $made
        . join('', map {"export const is$_ = (it: S['$_']): $_ => it;\n"}
        qw(Branch Factors Me OwnSession Session SteppedUp))
        . "export const asked = (it: Extract<Login, { code: 'AUTH_FACTOR_REQUIRED' }>): FactorAsked => it;\n" ],
    'asked.ts' => [ 0, 'which token there is has to be asked',
        "$types(s: Session): string => s.accessToken;" ],
    'client.ts' => [ 1, 'the client compiles', $client ],
    'code.ts' => [ 0, 'a code is a documented one',
        "import type { Code } from './client';\nexport const f = (c: Code) => c === 'AUTH_NONE';" ],
    'event.ts' => [ 0, 'an event is one that there is',
        "import type { PlatformClient } from './client';\n"
        . "export const f = (c: PlatformClient) => c.on('signedIn', () => {});" ],
    'fault.ts' => [ 0, 'control: a member of another type',
        $client =~ s/text: string/text: number/r ],
    'known.ts' => [ 1, 'who asks knows, and both tokens are strings', $types
        . "(s: Session, o: OwnSession): string => s.accessToken === undefined\n"
        . "  ? s.accountAccessToken + (o.address ?? '') : s.accessToken;" ],
    'made.ts' => [ 1, 'the types made of the document narrow', $made . <<'END' ],
export const token = (s: Login): string => s.code === 'AUTH_FACTOR_REQUIRED' ? s.factorToken
  : s.accessToken === undefined ? s.accountAccessToken : s.accessToken;
export const branches = (s: S['Session']): number => s.accessToken === undefined
  ? s.branches.length : s.branches === undefined ? s.activeBranchId.length : s.branches.length;
export const action = (s: S['Session']): 'select_branch' | undefined =>
  s.accessToken === undefined ? s.nextAction.type : undefined;
export const choice = (s: Extract<S['Session'], { nextAction: { type: 'select_branch' } }>):
  string => s.accountAccessToken;
export const roles = (m: S['Me']): string[] => m.branchId === undefined ? [] : m.roles;
export const factors = (s: Login): string[] => s.code === 'AUTH_FACTOR_REQUIRED' ? s.factors : [];
export const kinds = (s: Extract<Login, { nextAction: { type: 'verify_factor' } }>):
  ('passkey' | 'totp' | 'recovery')[] => s.factors;
export const stepped = (s: S['SteppedUp']): string =>
  s.accessToken === undefined ? s.accountAccessToken : s.accessToken;
export const code = (r: Refused): 'AUTH_SESSION_CHANGED' => r.code;
END
    'made-unasked.ts' => [ 0, 'and have to be asked', $made
        . "export const token = (s: Login): string =>\n"
        . "  s.code === 'AUTH_LOGIN_SUCCESS' ? s.accountAccessToken : '';\n" ],
    'factors.ts' => [ 1, 'docs/second-factor.md too',
        join '', $t->read_file("$root/docs/second-factor.md") =~ /^```ts\n(.*?)^```/gms ],
    'next.ts' => [ 0, 'a factorToken has to be asked for',
        "import type { Next } from './client';\nexport const f = (n: Next): string => n.factorToken;" ],
    'page.ts' => [ 1, 'docs/http-api.md uses it as it is',
        join '', $t->read_file("$root/docs/http-api.md") =~ /^```ts\n(.*?)^```/gms ],
    'react.tsx' => [ 1, 'a page in React', $t->read_file("$root/examples/client/react.tsx") ],
    'readme.ts' => [ 1, 'README.md of the package',
        $t->read_file("$root/examples/client/README.md") =~ /^```ts\n(.*?)^```/ms ],
    'types.ts' => [ 1, 'its types too', $data ],
);
$t->write_file($_, $file{$_}[2]) for keys %file;
$said = qx{$node $tools/node_modules/openapi-typescript/bin/cli.js $root/docs/openapi-frontend.yaml -o $dir/frontend.ts 2>&1};
is $?, 0, 'openapi-typescript' or diag $said;
$t->write_file('tsconfig.json', encode_json({ extends => "$root/examples/client/tsconfig.json",
    compilerOptions => { noEmit => JSON::PP::true, noUnusedLocals => JSON::PP::false },
    files => [ sort keys %file ] }));
$said = qx{cd $dir && $node $tools/node_modules/typescript/bin/tsc -p . 2>&1};
for my $name (sort keys %file) {
    my ($good, $what) = @{ $file{$name} };
    is $said !~ /^\Q$name\E\(/m, !!$good, $what or diag $said;
}
$t->write_file('client.mjs', "export * from 'platform-gateway-client';\n");

my ($codes) = $data =~ /^export type ServiceCode =\n(.*?);/ms;
is_deeply [ sort $codes =~ /'(\w+)'/g ], [ sort $t->read_file("$root/docs/openapi.yaml")
    =~ /const: (\w+), x-status/g ], 'its codes are those of docs/openapi.yaml';

my $base = 'http://127.0.0.1:' . $s->gateway;
my @calls;
for my $mode ('', 'retries') {
    if ($mode) {
        # The gateway goes on asking for revocations meanwhile.
        $t->allow(qr/connect\(\) to unix:.*revocations/);
        $s->identity->stop;
        $s->identity->{env}{PLATFORM_AUTH_REFRESH_RETRY_WINDOW} = '30s';
        $s->identity->start;
        # And proofs need a nonce.
        my $http = $t->read_file('rendered/platform-http.conf');
        ok $http =~ s/zone=platform_proofs:8m/$& nonce=on/, 'nonces';
        $t->write_file('rendered/platform-http.conf', $http);
        ok $s->nginx->reload, 'a reload';
    }
    $s->postgres->sql('delete from factors');
    my @lines = split /^/, qx{$node $tools/client.mjs $dir/client.mjs $base $mode 2>&1};
    my $checks = 0;
    for my $line (@lines) {
        if ($line =~ /^((?:not )?ok) (.*)/) {
            $checks++;
            is $1, 'ok', "$mode $2";
        } elsif ($line !~ /^\d+ checks$/) {
            diag $line;
        }
    }
    is $lines[-1] // '', "$checks checks\n", 'all have been made' or diag join '', @lines;
    push @calls, @{ decode_json($t->read_file('client.mjs.calls')) };
}
my $exchanges = $t->write_file('exchanges', encode_json(\@calls));
my $told = qx{$node $tools/validate.mjs $root/docs/openapi.yaml $exchanges};
my $faults = decode_json($told)->{faults};
cmp_ok @$faults, '>', 160, 'calls';
is_deeply [ map {@$_} @$faults ], [], 'all as docs/openapi.yaml says';

$t->done;
