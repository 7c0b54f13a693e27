# examples/client: passes the compiler's strictest checks, has the types that
# docs/openapi.yaml makes, and does what it says against the real gateway,
# identity service and PostgreSQL.

use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new(timeout => 900);
my $s = $t->full_stack;
my ($dir, $tools) = ($t->dir, $t->root . '/t/node');
my $source = $t->root . '/examples/client/client.ts';

# The blocks of the page, one after the other; and types made from the document,
# which need no "?." and are those of the client.

my $page = join '', $t->read_file($t->root . '/docs/http-api.md') =~ /^```ts\n(.*?)^```/gms;
qx{$node $tools/node_modules/openapi-typescript/bin/cli.js @{[ $t->root ]}/docs/openapi.yaml -o $dir/api.ts 2>&1};
is $?, 0, 'types are made from docs/openapi.yaml';
my $types = <<'END';
import type { components, operations } from './api';
import type { OwnSession, Session } from './client';

type Schemas = components['schemas'];
type Answer<O extends 'login' | 'refresh'> =
  operations[O]['responses'][200]['content']['application/json'];
type Exactly<A, B> = [A] extends [B] ? [B] extends [A] ? true : false : false;

export const same: Exactly<OwnSession, Schemas['OwnSession']> = true;

export function first(answer: Answer<'login'> | Answer<'refresh'>): string {
  const session: Session = answer;
  if (answer.accessToken !== undefined) return answer.accessToken;
  const action: 'select_branch' = answer.nextAction.type;
  return answer.accountAccessToken + answer.branches.length + action
    + session.refreshToken;
}
export function other(answer: Answer<'login'>): string {
  return answer.branches === undefined ? answer.accessToken
    : answer.accountAccessToken;
}
export function next(action: Schemas['NextAction']): string {
  switch (action.type) {
    case 'load_current_context': return 'go';
    case 'select_branch': return 'choose';
  }
}
export const used = (own: OwnSession): string => own.address ?? 'unknown';
END

# What is right compiles, as strictly as the compiler can, and of all that was made
# wrong each file has a fault: one run, since the compiler's start is what it costs.

sub changed ($text, $from, $to) {
    $text =~ s/$from/$to/ or die "no $from\n";
    return $text;
}

my $client = $t->read_file($source);
my %file = (
    'page.ts' => [ 1, 'docs/http-api.md uses it as it is', $page ],
    'types.ts' => [ 1, 'strict TypeScript needs no "?."', $types ],
    'asked.ts' => [ 0, 'which token there is has to be asked', changed($types, 'if .*', '') ],
    'actions.ts' => [ 0, 'there are two actions', changed($types, 'case .select.*', '') ],
    'address.ts' => [ 0, 'address may be null', changed($types, " \\?\\? 'unknown'", '') ],
    'fault.ts' => [ 0, 'a member of another type',
        changed($client, 'token: string', 'token: number') ],
);
$t->write_file('client.ts', $client);
$t->write_file($_, $file{$_}[2]) for keys %file;
$t->write_file('tsconfig.json', <<"END");
{
  "extends": "$tools/tsconfig.json",
  "compilerOptions": { "rootDir": ".", "noUnusedLocals": false },
  "files": ["client.ts", "@{[ join '", "', sort keys %file ]}"]
}
END
my $said = qx{cd $dir && $node $tools/node_modules/typescript/bin/tsc -p . 2>&1};
for my $name ('client.ts', sort keys %file) {
    my ($good, $what) = @{ $file{$name} // [ 1, 'the client compiles' ] };
    is $said !~ /^\Q$name\E\(/m, !!$good, $good ? $what : "control: $what" or diag $said;
}
rename "$dir/client.js", "$dir/client.mjs";

my $base = 'http://127.0.0.1:' . $s->gateway;
for my $mode ('', 'retries') {
    if ($mode) {
        # The gateway goes on asking for revocations meanwhile.
        $t->allow(qr/connect\(\) to unix:.*revocations/);
        $s->identity->stop;
        $s->identity->{env}{PLATFORM_AUTH_REFRESH_RETRY_WINDOW} = '30s';
        $s->identity->start;
    }
    my @lines = split /^/, qx{$node $tools/client.mjs $dir/client.mjs $base $mode 2>&1};
    my $checks = 0;
    for my $line (@lines) {
        next unless $line =~ /^((?:not )?ok) (.*)/;
        $checks++;
        is $1, 'ok', "$mode $2";
    }
    is $lines[-1] // '', "$checks checks\n", 'all have been made' or diag join '', @lines;
}

$t->done;
