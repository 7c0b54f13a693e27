# docs/back-office.md and the runbook of a leaked secret, followed word by word: what the
# commands and calls print is what the pages say, and what they promise holds.

use JSON::PP qw(decode_json);
use Platform::Test;
use Platform::Test::Page qw(fixed_ids steps);

Platform::Test::Env::needs('jq') if system('jq --version >/dev/null 2>&1') != 0;

my $t = Platform::Test->new;
my ($root, $dir) = ($t->root, $t->dir);
my %env = (PLATFORM_SYSTEM_API => 'gateway');
my $s = $t->full_stack(env => \%env);
my $gateway = 'http://127.0.0.1:' . $s->gateway;

# The blocks run in shells of one directory, with the function that pages have for the
# operator's program.  What each block printed.
my $identity = $t->identity_env(%env);
my $file = $t->write_file('platform.env', join '', map {"$_='$identity->{$_}'\n"} sort keys %$identity);
my $program = sprintf "identity() { %s --env-file %s \"\$@\"; }\n", Platform::Test::Env::identity(), $file;
sub shell (@blocks) {
    my $script = join "\necho '=== next'\n", @blocks;
    $script =~ s{http://localhost:8080}{$gateway}g;
    $t->write_file('page.sh', "cd $dir\nset -e\n$program$script");
    my $said = qx{sh $dir/page.sh 2>$dir/page.log};
    is $?, 0, 'the commands succeed' or diag $said, $t->read_file('page.log');
    return split /^=== next\n/m, $said, -1;
}

# -- docs/back-office.md, from its beginning to its end

# 10,000 people have accounts; of the file two are new, one has left and one was locked out.
my @people = map { sprintf 'person%05d@staff.example.com', $_ } 1 .. 10_000;
$s->postgres->sql("insert into accounts (account_name, account_type, credential_hash, status)
    select format('person%s\@staff.example.com', lpad(n::text, 5, '0')), 'CUSTOMER', credential_hash,
        case when n = 9 then 'DISABLED' else 'ACTIVE' end
    from accounts, generate_series(1, 10000) n where account_name = 'one\@demo.test'");
$t->write_file('people.txt', join "\n", reverse(@people[ 0 .. 7, 10 .. 9_999 ]),
    'new1@staff.example.com', 'new2@staff.example.com', '');

my $page = "$root/docs/back-office.md";
my ($functions) = map { $_->[0] } steps($page, '');
my %program = map { $_ => [ steps($page, $_) ] } my @programs =
    ('A sign-up page', 'An invitation', 'A support desk', 'A nightly sync');

# What is different each time: ids, times, codes.
sub same ($text) {
    $text = fixed_ids($text) =~ s/\b\d{4}-\d\d-\d\dT[\d:]+Z/TIME/gr
        =~ s/"(?:[A-Z2-7]{4}-){3}[A-Z2-7]{4}"/"CODE"/gr
        =~ s/"requestId":\s*"[0-9a-f]{32}"/"requestId":"ID"/gr =~ s/"eventId":\s*\d+/"eventId":1/gr
        =~ s/"next":\s*"\d+"/"next":"1"/gr;
    return $text =~ /\A\s*\{/ ? eval { decode_json($text) } // $text : $text;
}
for my $name (@programs) {
    my @steps = @{ $program{$name} };
    my (undef, @said) = shell($functions, map { $_->[0] } @steps);
    for my $n (grep { $steps[$_][1] ne '' } 0 .. $#steps) {
        my $said = $said[$n] =~ /^\{/ ? (split /\n/, $said[$n])[-1] : $said[$n];
        is_deeply same($said), same($steps[$n][1]), "$name: step " . ($n + 1) . ' prints what the page says'
            or diag $said[$n];
    }
}

is $s->login('ann@example.com', credential => 'correct horse battery')->status, 200, 'ann is in';
is $s->login('bea@example.com', credential => 'staple battery horse')->status, 200, 'and so is bea';
is_deeply [ split /\n/, $s->postgres->sql("select account_name || ' ' || status from accounts
    where account_name like '%\@staff.example.com' and account_name <> all ('{@{[ join ',', @people[ 0 .. 7, 10 .. 9_999 ] ]}}')
    order by 1") ], [ 'new1@staff.example.com ACTIVE', 'new2@staff.example.com ACTIVE',
    "$people[8] DISABLED", "$people[9] DISABLED" ], 'the sync did what it should';
is $s->postgres->sql("select count(*) from accounts where status = 'DISABLED' and account_name <> 'disabled\@demo.test'"), 2,
    'and nothing else';
my (undef, undef, $again) = shell($functions, $program{'A nightly sync'}[0][0] =~ s/client sync/client sync-again/r, 'wc -c <done.jsonl');
is $again + 0, 0, 'the next night there is nothing to do';

# Each program needs each of its scopes: without one a call of its is refused.
sub refusals {
    return scalar grep { /"status":403/ && m{"path":"/api/system/} }
        split /^/, $t->read_file('logs/access.log');
}
$t->write_file('people.txt', $t->read_file('people.txt') . "new3\@staff.example.com\n");
my $runs = 0;
for my $name (@programs) {
    my $text = join "\n", map { $_->[0] } @{ $program{$name} };
    for my $scope ($text =~ /--allow (\S+)/g) {
        my $before = refusals();
        my $less = $text =~ s/--allow \Q$scope\E/--allow places:read/r =~ s/^client [\w-]+\K/-without-@{[ ++$runs ]}/mr;
        $t->write_file('less.sh', "cd $dir\n$program$functions$less" =~ s{http://localhost:8080}{$gateway}gr);
        qx{sh $dir/less.sh 2>&1};
        ok eventually(sub { refusals() > $before }, 10), "$name: needs $scope";
    }
}
cmp_ok $runs, '==', 8, 'all of them';

# -- the runbook of a leaked secret

my $runbooks = "$root/docs/runbooks.md";
my @leak = map { $_->[0] } steps($runbooks, 'The secret of a program leaked');
is scalar @leak, 5, 'the runbook has its steps';

my ($client, $leaked) = map { decode_json($_) } shell(
    'identity client add billing --allow audit:read --allow people:read --json',
    'identity client secret add billing --json');
sub token ($secret) {
    return http_post($s->gateway, '/api/auth/token',
        body => "grant_type=client_credentials&client_id=$client->{accountId}&client_secret=$secret",
        headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ]);
}
sub audit ($token) { return $s->get('/api/system/audit?limit=1', token => $token)->status }
my $stolen = token($leaked->{secret})->json->{access_token};
is audit($stolen), 200, 'a token of the thief';
$leak[0] =~ s/--id \K\S+/$leaked->{secretId}/ or die 'no id';
my ($shown) = shell($leak[0]);
like $shown, qr/^secret id +created .*^\Q$leaked->{secretId}\E /ms, 'shows which secrets there are';
is token($leaked->{secret})->status, 401, 'the secret opens nothing';
ok eventually(sub { audit($stolen) == 401 }, 10), 'nor does its token, at the gateway';
my ($secret) = map {s/\n\z//r} shell($leak[1]);
my $token;
ok eventually(sub { ($token = token($secret)->json->{access_token}) && audit($token) == 200 }, 10),
    'the new secret does';
shell($leak[2]);
ok eventually(sub { audit($token) == 401 }, 10), 'the whole client ends';
shell('identity account enable billing');

# The client changed something.
$s->postgres->sql("insert into audit_events (event, by_account, account_id, address)
    select 'account.disabled', '$client->{accountId}', account_id, '192.0.2.7'
    from accounts where account_name = 'one\@demo.test'");
my ($done) = shell($leak[3] =~ s/2026-11-21/2020-01-01/r);
is_deeply [ map { my $e = decode_json($_); @$e{qw(event address)} } split /^/, $done ],
    [ 'account.disabled', '192.0.2.7' ], 'what was done in its name';
my ($rows) = shell($leak[4]);
is_deeply [ $rows =~ /\b(client\.secret_\w+)/g ], [qw(client.secret_added client.secret_removed client.secret_added)],
    'and the remedy, newest first' or diag $rows;

$t->done;
