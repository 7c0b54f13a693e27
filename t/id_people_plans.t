# Each page of the API's lists reads a bounded part of the database, however many rows
# there are and whatever they are filtered by: the server's own count of blocks says so.
# PLATFORM_TEST_ROWS=1000000 has a million accounts, and prints the times.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $ROWS = $ENV{PLATFORM_TEST_ROWS} // 20_000;
my $BLOCKS = 1500;    # that a page of 100 may read

my $t = Platform::Test->new(timeout => 1200);
my $pg = $t->postgres(settings => {
    max_wal_size                         => '4GB',
    shared_buffers                       => '512MB',
    session_preload_libraries            => 'auto_explain',
    'auto_explain.log_min_duration'      => 0,
    'auto_explain.log_analyze'           => 'on',
    'auto_explain.log_timing'            => 'off',
    'auto_explain.log_buffers'           => 'on',
    'auto_explain.log_nested_statements' => 'on',
});
my $c = Platform::Test::Commands->new(test => $t);
$t->identity_face(PLATFORM_LOG_LEVEL => 'error');
my $port = client_of($t);
my $client = $c->done(qw(client add reader --allow people:read --allow places:read --allow audit:read));
my $secret = $c->done(qw(client secret add reader))->{secret};
my $token = http($port, POST => '/api/auth/token', body => 'grant_type=client_credentials'
    . "&client_id=$client->{accountId}&client_secret=$secret",
    headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ])->json->{access_token};

sub id ($table, $n) {
    return "('00000000-0000-4000-900$table-' || to_char($n, 'FM000000000000'))::uuid";
}
my $big = '00000000-0000-4000-9001-000000000001';     # a workspace that half of them are in
my $small = '00000000-0000-4000-9001-000000000003';
my $tenant = '00000000-0000-4000-8000-000100000001';
$pg->sql(<<"SQL", user => 'postgres');
set auto_explain.log_min_duration = -1;
set session_replication_role = replica;    -- triggers would take minutes
insert into accounts (account_id, account_name, credential_hash, account_type, status)
select ${\id(0, 'n')}, 'filler' || n, '\$argon2id\$x',
       case when n % 10000 = 7 then 'OPERATOR' else 'CUSTOMER' end,
       case when n % 10000 = 9 then 'DISABLED' else 'ACTIVE' end from generate_series(1, $ROWS) n;
insert into accounts (account_id, account_name, credential_hash, status, deleted_at)
select ${\id(5, 'n')}, ${\id(5, 'n')}::text, '\$argon2id\$x', 'DELETED', now() from generate_series(1, 50) n;
insert into workspaces (workspace_id, tenant_id, workspace_name)
select ${\id(1, 'n')}, '$tenant', 'W' || n from generate_series(1, $ROWS / 10) n;
insert into branches (branch_id, workspace_id, branch_name)
select ${\id(2, 'n')}, ${\id(1, '1 + n % 2')}, 'B' || n from generate_series(1, $ROWS / 10) n;
insert into members (member_id, account_id, workspace_id)
select ${\id(3, 'n')}, ${\id(0, 'n')}, case when n % 2 = 0 then '$big' else ${\id(1, "2 + n % 1000")} end
  from generate_series(1, $ROWS) n;
insert into branch_grants (member_id, branch_id, workspace_id)
select ${\id(3, 'n')}, ${\id(2, '2')}, '$big' from generate_series(2, $ROWS, 2) n;
insert into member_roles select member_id, branch_id, 'CASHIER' from branch_grants
 where workspace_id = '$big';
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
select gen_random_uuid(), ${\id(0, '1')}, gen_random_uuid(), now() - n * interval '1 s',
       now() + interval '30 days' from generate_series(1, 2000) n;
insert into audit_events (event, account_id, event_at)
select case when n % 10000 = 1 then 'account.rare' else 'account.common' end, ${\id(0, '1 + n % 1000')},
       now() - n * interval '1 s' from generate_series(1, $ROWS) n;
SQL
$pg->sql('vacuum analyze');

# The plans since the server's log was so long: of each its query, blocks and milliseconds.
sub plans ($start) {
    my $log = substr $t->read_file('postgres.log'), $start;
    my @found;
    while ($log =~ /duration: ([\d.]+) ms  plan:\n\tQuery Text: ([^\n]*)\n((?:\t[^\n]*\n)+)/g) {
        my ($ms, $query, $plan) = ($1, $2, $3);
        my ($hit, $read) = (0, 0);
        ($hit, $read) = ($1 // 0, $2 // 0) if $plan =~ /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/;
        push @found, { ms => $ms, query => $query, blocks => $hit + $read, plan => $plan };
    }
    return @found;
}

# Reads pages of a list; each reads few blocks.
sub lists ($path, $member, $least, $pages = 3) {
    my ($after, $seen, $most, $ms) = ('', 0, 0, 0);
    for my $page (1 .. $pages) {
        my $start = -s $pg->{log};
        my $sign = $path =~ /\?/ ? '&' : '?';
        my $res = http_get($port, "/api/system/$path$after", token => $token);
        is $res->status, 200, "$path: page $page" or return;
        for my $p (plans($start)) {
            $most = $p->{blocks} if $p->{blocks} > $most;
            $ms = $p->{ms} if $p->{ms} > $ms;
            diag $p->{query}, "\n", $p->{plan} if $p->{blocks} > $BLOCKS;
        }
        $seen += @{ $res->json->{$member} };
        my $next = $res->json->{next} // last;
        $after = "${sign}after=$next";
    }
    cmp_ok $seen, '>=', $least, "$path: items";
    cmp_ok $most, '<=', $BLOCKS, "$path: $most blocks at most";
    diag sprintf '%-45s %5d blocks, %6.2f ms', $path, $most, $ms if $ENV{PLATFORM_TEST_ROWS};
}

lists('accounts', accounts => 300);
lists('accounts?name=filler5', accounts => 300);
lists('accounts?name=filler19999', accounts => 1);
lists('accounts?name=nobody', accounts => 0);
lists('accounts?type=OPERATOR', accounts => 2);
lists('accounts?type=SYSTEM', accounts => 1);
lists('accounts?status=DISABLED', accounts => 2);
lists('accounts?status=DELETED', accounts => 50);
lists('accounts?type=OPERATOR&status=DISABLED', accounts => 0);
lists("accounts?workspaceId=$big", accounts => 300);
lists("accounts?workspaceId=$small", accounts => 5);
lists('workspaces', workspaces => 300);
lists('workspaces?name=W19', workspaces => 100);
lists("workspaces?tenantId=$tenant", workspaces => 300);
lists("workspaces/$big/branches", branches => 300);
lists("workspaces/$big/members", members => 300);
lists('audit', events => 300);
lists('audit?event=account.rare', events => 1);
lists('audit?accountId=00000000-0000-4000-9000-000000000001', events => 10);
lists('audit?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z', events => 0);

# A list without an index would be seen.
my $start = -s $pg->{log};
$pg->sql("select count(*) from members where created_at > now()");
cmp_ok +(plans($start))[0]{blocks}, '>', $BLOCKS / 10, 'one that reads a whole table would be seen';

$t->done;
