# examples/client/system.ts: passes the compiler's strictest checks with the types that
# openapi-typescript makes of docs/openapi-system.yaml, asks as that says, and does what it
# says against the real gateway, identity service and PostgreSQL.

use JSON::PP;
use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new(timeout => 300);
my %env = (PLATFORM_SYSTEM_API => 'gateway', PLATFORM_LOGIN_RATE_LIMIT => 'off');
my $s = $t->full_stack(env => \%env);
my ($dir, $root) = ($t->dir, $t->root);
my $tools = "$root/t/node";
my $client = $t->read_file("$root/examples/client/system.ts");
cmp_ok $client =~ tr/\n//, '<=', 350, 'lines';

# -- types

my $said = qx{$node $tools/node_modules/openapi-typescript/bin/cli.js $root/docs/openapi-system.yaml -o $dir/system-api.ts 2>&1};
is $?, 0, 'openapi-typescript' or diag $said;
my $import = "import type { SystemClient, PlatformError } from './system';\n";
my %file = (
    'code.ts' => [ 0, 'a code is a documented one',
        "${import}export const f = (e: PlatformError) => e.code === 'AUTH_NONE';" ],
    'member.ts' => [ 0, 'an account has the members of the document', $import
        . "export const f = async (c: SystemClient) => (await c.account('x')).name;" ],
    'page.ts' => [ 1, 'docs/programs.md uses it as it is',
        join '', $t->read_file("$root/docs/programs.md") =~ /^```ts\n(.*?)^```/gms ],
    'request.ts' => [ 0, 'and a new one only those that it takes', $import
        . "export const f = (c: SystemClient) => c.addAccount({ account: 'x', name: 'y' });" ],
    'right.ts' => [ 1, 'control: what is right', $import . <<'END' ],
export const f = async (c: SystemClient): Promise<string[]> => {
  const names: string[] = [];
  for await (const account of c.accounts({ type: 'CUSTOMER', status: 'DISABLED' }))
    names.push(account.account);
  const { memberships } = await c.account('x');
  return names.concat(memberships.flatMap((m) => m.grants.map((g) => g.branchName)));
};
export const g = (e: PlatformError): boolean => e.code === 'RESOURCE_EXISTS';
END
    'system.ts' => [ 1, 'the client compiles', $client ],
    'system-api.ts' => [ 1, 'its types too' ],
    'tenant.ts' => [ 0, 'a workspace is in one tenant, or in a new one', $import
        . "export const f = (c: SystemClient) => c.addWorkspace({ workspaceName: 'x' });" ],
);
for my $name (grep { defined $file{$_}[2] } keys %file) {
    $t->write_file($name, $file{$name}[2]);
}
$t->write_file('tsconfig.json', encode_json({ extends => "$root/examples/client/tsconfig.json",
    compilerOptions => { rootDir => '.', outDir => '.', noUnusedLocals => JSON::PP::false },
    files => [ sort keys %file ] }));
$said = qx{cd $dir && $node $tools/node_modules/typescript/bin/tsc -p . 2>&1};
for my $name (sort keys %file) {
    my ($good, $what) = @{ $file{$name} };
    is $said !~ /^\Q$name\E\(/m, !!$good, $what or diag $said;
}
rename "$dir/system.js", "$dir/system.mjs";

# -- calls

my $c = Platform::Test::Commands->new(test => $t, env => { %env, PLATFORM_LOG_LEVEL => 'error' });
sub program ($name, @scopes) {
    my $id = $c->done(qw(client add), $name, map { ('--allow', $_) } @scopes)->{accountId};
    return ($id, $c->done(qw(client secret add), $name)->{secret});
}
my $programs = join ' ', program(office => qw(people:read people:write places:read places:write
    credentials:write audit:read)), program(less => 'people:read');
my $base = 'http://127.0.0.1:' . $s->gateway;
my @lines = split /^/, qx{$node $tools/system.mjs $dir/system.mjs $base $programs 2>&1};
my $checks = 0;
for my $line (@lines) {
    if ($line =~ /^((?:not )?ok) (.*)/) {
        $checks++;
        is $1, 'ok', $2;
    } elsif ($line !~ /^\d+ checks$/) {
        diag $line;
    }
}
is $lines[-1] // '', "$checks checks\n", 'all have been made' or diag join '', @lines;
my $told = qx{$node $tools/validate.mjs $root/docs/openapi-system.yaml $dir/system.mjs.calls};
my $faults = decode_json($told)->{faults};
cmp_ok scalar @$faults, '>', 60, 'calls';
is_deeply [ map {@$_} @$faults ], [], 'all as docs/openapi-system.yaml says';

$t->done;
