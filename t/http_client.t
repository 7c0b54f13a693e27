# examples/client: passes the compiler's strictest checks, has the types that
# docs/openapi.yaml makes, and does what it says against the real gateway,
# identity service and PostgreSQL.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Env;
use Test::More;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new(timeout => 900);
my $s = $t->full_stack;
my ($dir, $tools) = ($t->dir, $t->root . '/t/node');
my $source = $t->root . '/examples/client/client.ts';

sub slurp {
    my ($path) = @_;

    open my $fh, '<', $path or die "$path: $!\n";
    local $/;
    return scalar <$fh>;
}

my $said = qx{$node $tools/node_modules/typescript/bin/tsc -p $tools --outDir $dir 2>&1};
is $?, 0, 'it compiles' or diag $said;
rename "$dir/client.js", "$dir/client.mjs";

# The blocks of the page, one after the other.
my $page = join '', slurp($t->root . '/docs/http-api.md') =~ /^```ts\n(.*?)^```/gms;
$page =~ s{'./client'}{'$dir/client'}g;
$t->write_file('client.ts', slurp($source));
my $compile = "$node $tools/node_modules/typescript/bin/tsc --strict --noEmit"
    . ' --target es2022 --module es2022 --moduleResolution bundler'
    . ' --lib es2022,dom';
$said = qx{$compile @{[ $t->write_file('page.ts', $page) ]} 2>&1};
is $?, 0, 'docs/http-api.md uses it as it is' or diag $said;

# Types made from the document need no "?.", and are those of the client.

qx{$node $tools/node_modules/openapi-typescript/bin/cli.js @{[ $t->root ]}/docs/openapi.yaml -o $dir/api.ts 2>&1};
is $?, 0, 'types are made from docs/openapi.yaml';
my $strict = "$compile --noUncheckedIndexedAccess --exactOptionalPropertyTypes"
    . ' --noImplicitReturns';
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
for my $case ([ 'strict TypeScript needs no "?."' ],
    [ 'control: which token there is has to be asked', 'if .*', '' ],
    [ 'control: there are two actions', 'case .select.*', '' ],
    [ 'control: address may be null', " \\?\\? 'unknown'", '' ])
{
    my ($name, $from, $to) = @$case;
    my $text = $types;
    $text =~ s/$from/$to/ if $from;
    $said = qx{$strict @{[ $t->write_file('types.ts', $text) ]} 2>&1};
    is $? == 0, !$from, $name or diag $said;
}

my $base = 'http://127.0.0.1:' . $s->gateway;
for my $mode ('', 'retries') {
    if ($mode) {
        # The gateway goes on asking for revocations meanwhile.
        $t->allow(qr/connect\(\) to unix:.*revocations/);
        $s->identity->stop;
        $s->identity->{env}{PLATFORM_AUTH_REFRESH_RETRY_WINDOW} = '30s';
        $s->identity->start;
    }
    my @lines = split /^/,
        qx{$node $tools/client.mjs $dir/client.mjs $base $mode 2>&1};
    my $checks = 0;
    for my $line (@lines) {
        next unless $line =~ /^((?:not )?ok) (.*)/;
        $checks++;
        is $1, 'ok', "$mode $2";
    }
    is $lines[-1] // '', "$checks checks\n", 'all have been made'
        or diag join '', @lines;
}

(my $text = slurp($source)) =~ s/token: string/token/;
qx{$compile @{[ $t->write_file('changed.ts', $text) ]}};
isnt $?, 0, 'control: the compiler finds a fault';

$t->done;
