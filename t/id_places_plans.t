# Pages of workspaces, branches and members, however many there are: each is read along an
# index, and few rows are read for it.  PLATFORM_TEST_ACCOUNTS=1000000 for a million, and
# then each page takes less than 20 ms.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use MIME::Base64 qw(encode_base64url);

my $ACCOUNTS = $ENV{PLATFORM_TEST_ACCOUNTS} // 20_000;
my $PLACES = $ACCOUNTS / 10;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    max_wal_size                    => '4GB',
    shared_buffers                  => '512MB',
    session_preload_libraries       => 'auto_explain',
    'auto_explain.log_min_duration' => 0,
    'auto_explain.log_analyze'      => 'on',
    'auto_explain.log_timing'       => 'off',
});
my $key = jwt_key('identity');
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face;
my $port = client_of($t);
my @scopes = map { ('--allow', $_) } qw(people:read places:read);
$c->done(qw(client add office), @scopes);
my $token = $c->done(qw(token system --ttl 1h --account office), @scopes)->{token};

# All accounts are members of the first workspace, fifty of the second one; one tenant has
# half of all workspaces, the others have one each.
my ($big, $few) = map {"00000000-0000-4000-a000-00000000000$_"} 1, 2;
my $tenant = '00000000-0000-4000-8000-000100000001';
$pg->sql(<<"SQL", user => 'postgres');
set auto_explain.log_min_duration = -1;
set session_replication_role = replica;    -- triggers would take minutes
insert into accounts (account_name, credential_hash)
select 'm' || lpad(n::text, 8, '0'), '\$argon2id\$x' from generate_series(1, $ACCOUNTS) n;
insert into tenants (tenant_name) select 'T' || n from generate_series(1, $PLACES) n;
insert into workspaces (workspace_id, tenant_id, workspace_name)
values ('$big', '$tenant', 'Big'), ('$few', '$tenant', 'Few');
insert into workspaces (tenant_id, workspace_name)
select tenant_id, 'W' from tenants where tenant_name ~ '^T';
insert into workspaces (tenant_id, workspace_name)
select '$tenant', 'X' || n from generate_series(1, $PLACES) n;
insert into branches (workspace_id, branch_name)
select '$big', 'B' || n from generate_series(1, $PLACES) n;
insert into members (account_id, workspace_id)
select account_id, '$big' from accounts where account_name ~ '^m';
insert into members (account_id, workspace_id)
select account_id, '$few' from accounts where account_name ~ '^m' order by account_name desc limit 50;
SQL
$pg->sql('analyze');

sub cursor (@names) { return encode_base64url(join("\0", @names, uuid(1)) . "\0") }

# The pages at these cursors have so many rows each; how many rows were read for one.
sub pages ($path, $key, $rows, @cursors) {
    for my $cursor (@cursors) {
        my $start = -s $pg->{log};
        my $res = http_get($port, "/api/system/$path" . ($path =~ /\?/ ? '&' : '?') . "after=$cursor",
            token => $token);
        is scalar @{ $res->json->{$key} }, $rows, "$path: its rows" or diag $res->body;
        my ($ms, $plan) = substr($t->read_file('postgres.log'), $start)
            =~ /duration: ([0-9.]+) ms  plan:\n\tQuery Text: SELECT [pm]\.[^\n]* LIMIT \$\d\n((?:\t[^\n]*\n)+)/;
        # PostgreSQL 18 has two decimals of rows.
        my ($most) = sort { $b <=> $a } map { /(\d+)\S* loops=(\d+)/ ? $1 * $2 : () }
            ($plan // '') =~ /actual rows=(\S+ loops=\d+)/g;
        cmp_ok $most // 1e9, '<=', 500, "at most five rows are read for one ($ms ms)" or diag $plan;
        unlike $plan, qr/Seq Scan|Parallel|Hash/, 'along an index';
        cmp_ok $ms, '<', 20, 'in 20 ms' if $ACCOUNTS >= 1_000_000;
    }
}
my @members = map { cursor('Big', sprintf 'm%08d', $_) } 0, $ACCOUNTS / 2, $ACCOUNTS - 101;
pages("workspaces/$big/members", members => 100, @members);
pages("workspaces/$big/members?status=ACTIVE", members => 100, @members);
pages("workspaces/$few/members", members => 50, '', cursor('Few', 'm'));
pages("workspaces/$big/branches", branches => 100, cursor('Big', 'A'), cursor('Big', 'B5'));
pages("workspaces?tenantId=$tenant", workspaces => 100, cursor('', 'X'), cursor('', 'X5'));
pages('workspaces', workspaces => 100, cursor('T', ''), cursor('T5', 'W'));

$t->done;
