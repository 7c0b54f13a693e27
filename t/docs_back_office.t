# docs/back-office.md and the runbook of a leaked secret, followed word by word: what the
# commands and calls print is what the pages say, and what they promise holds.

use JSON::PP qw(decode_json);
use Platform::Test;
use Platform::Test::Page qw(steps);

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
