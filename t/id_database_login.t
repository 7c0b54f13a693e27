# A database that answers and will not have us is told from one that does not
# answer and from one that is not migrated: by /readyz, the log and the
# metrics.  PostgreSQL with scram passwords; nothing is disclosed to who asks.

use Platform::Test;

my $t = Platform::Test->new(module => 0);
my $hba = $t->write_file('hba.conf', <<'HBA');
local all all trust
host all all 127.0.0.1/32 scram-sha-256
HBA
chmod 0644, $hba or die "$hba: $!\n";
chmod 0755, $t->dir or die $t->dir . ": $!\n";
my $pg = $t->postgres(port => $t->port('postgres'), settings => { hba_file => $hba });
my $secret = 'Right-passw0rd-hunter2';
$pg->sql("alter role platform password '$secret'", user => 'postgres');
my ($status, undef, $err) = $t->run_identity(['seed']);
is $status, 0, 'migrated' or diag $err;
$pg->sql($_, user => 'postgres')
    for 'create database unmigrated owner platform',
    'create database closed', 'revoke connect on database closed from public',
    "create role nologin password '$secret'";

my %right = (
    PLATFORM_DB_HOST            => '127.0.0.1',
    PLATFORM_DB_PASSWORD        => $secret,
    PLATFORM_DB_MIGRATE_ON_START => 'false',
    PLATFORM_DB_SEED_ON_START   => undef,
);
my $count = 0;
my @disclosed;

sub serving (%change) {
    return $t->identity(name => 'identity' . ++$count, %right, %change);
}

# What /readyz says, by code and detail; and never anything of the settings.
sub readyz ($identity, $name) {
    my $got = $t->fcgi($identity->address)->request(GET => '/readyz');
    push @disclosed, "$name: $got->{body}" if $got->{body} =~ /hunter2|127\.0\.|
        nobody|nologin|platform|unmigrated|closed|28P01|wrong/x;
    my ($detail) = $got->{body} =~ /"detail":"([^"]*)"/;
    my ($code) = $got->{body} =~ /"code":"([^"]*)"/;
    return "$got->{status} " . join ' ', grep {defined} $code, $detail;
}

sub kinds ($identity) {
    my $text = $t->fcgi($identity->address)->request(GET => '/actuator/prometheus')->{body};
    return { $text =~ /^identity_db_errors_total\{kind="(\w+)"\} ([1-9]\d*)$/mg };
}

my $REFUSED = qr/^503 DATABASE_UNAVAILABLE Check failed: database \(it answers, but refuses the role, its password or the database's name\)\.$/;
my $SILENT = qr/^503 DATABASE_UNAVAILABLE Check failed: database \(no answer\)\.$/;

my $good = serving();
like readyz($good, 'all right'), qr/^200 $/, 'the right password: ready';
is_deeply kinds($good), {}, 'and no failure is counted';

for (
    [ 'a wrong password', PLATFORM_DB_PASSWORD => 'wrong' ],
    [ 'no password', PLATFORM_DB_PASSWORD => '' ],
    [ 'an unknown role', PLATFORM_DB_USER => 'nobody' ],
    [ 'a role that may not log in', PLATFORM_DB_USER => 'nologin' ],
    [ 'an unknown database', PLATFORM_DB_NAME => 'none' ],
    [ 'a database that lets it not in', PLATFORM_DB_NAME => 'closed' ],
    # The second server of the list is down: the first one's word counts.
    [ 'a wrong password, and a server down', PLATFORM_DB_PASSWORD => 'wrong',
        PLATFORM_DB_HOST => '127.0.0.1,127.0.0.1',
        PLATFORM_DB_PORT => "$pg->{port}," . $t->port('dead') ],
    )
{
    my ($name, %change) = @$_;
    my $identity = serving(%change);

    like readyz($identity, $name), $REFUSED, "$name: refused";
    like readyz($identity, $name), $REFUSED, "$name: and again";
    my ($line) = grep {/"event":"db\.refused"/} $identity->log_text;
    like $line, qr/"level":"error".*(?:FATAL|no password supplied)/,
        "$name: the log says what the server said";
    unlike join('', $identity->log_text), qr/hunter2|"db\.unavailable"/,
        "$name: and no other thing";
    is_deeply [ keys %{ kinds($identity) } ], ['login'], "$name: counted as that";
    $t->stop($identity);
}

my $down = serving(PLATFORM_DB_PORT => $t->port('dead'));
like readyz($down, 'down'), $SILENT, 'nobody listens: no answer';
like join('', $down->log_text), qr/"event":"db\.unavailable"/, 'in the log';
is_deeply [ keys %{ kinds($down) } ], ['connect'], 'and in the numbers';

my $empty = serving(PLATFORM_DB_NAME => 'unmigrated');
like readyz($empty, 'unmigrated'),
    qr/^503 SERVICE_NOT_READY Check failed: migrations/, 'not migrated';

# One and the same process: refused, hanging, right again.

$pg->sql("alter role platform password 'another'", user => 'postgres');
$pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
    where usename = 'platform' and pid <> pg_backend_pid()", user => 'postgres');
ok eventually(sub { readyz($good, 'changed') =~ $REFUSED }), 'the password changes: refused';
$pg->freeze('STOP');
ok eventually(sub { readyz($good, 'hangs') =~ $SILENT }), 'the server hangs: no answer';
$pg->freeze('CONT');
ok eventually(sub { readyz($good, 'thawed') =~ $REFUSED }), 'it goes on: refused';
$pg->sql("alter role platform password '$secret'", user => 'postgres');
ok eventually(sub { readyz($good, 'again') =~ /^200/ }), 'the password is back: ready';
my @told = join('', $good->log_text) =~ /"event":"db\.(\w+)"/g;
is_deeply [ grep {/refused|unavailable|connected/} @told ],
    [qw(refused unavailable refused connected)], 'each change in the log, once';
is_deeply \@disclosed, [], 'and never a word of a setting to who asks';

$t->done;
