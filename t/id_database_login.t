# A database that answers and will not have us is told from one that does not
# answer and from one that is not migrated: by /readyz, the log and the
# metrics.  PostgreSQL with scram passwords; nothing is disclosed to who asks.

use Platform::Test;

my $t = Platform::Test->new(module => 0);
my $hba = $t->write_file('hba.conf',
    "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n");
chmod 0644, $hba or die "$hba: $!\n";
chmod 0755, $t->dir or die $t->dir . ": $!\n";
my $pg = $t->postgres(port => $t->port('postgres'), settings => { hba_file => $hba });
my $secret = 'Right-passw0rd-hunter2';
my ($count, @disclosed);

sub root ($sql) { return $pg->sql($sql, user => 'postgres') }
sub password ($password) { return root("alter role platform password '$password'") }

sub serving (%change) {
    return $t->identity(name => 'identity' . ++$count, PLATFORM_DB_HOST => '127.0.0.1',
        PLATFORM_DB_PASSWORD => $secret, PLATFORM_DB_MIGRATE_ON_START => 'false',
        PLATFORM_DB_SEED_ON_START => undef, %change);
}

# What /readyz says, by code and detail; and never anything of the settings.
sub readyz ($identity) {
    my $got = $t->fcgi($identity->address)->request(GET => '/readyz');
    push @disclosed, $got->{body} if $got->{body} =~ /hunter2|127\.0\.|
        nobody|nologin|platform|unmigrated|closed|28P01|wrong/x;
    return join ' ', $got->{status},
        map { $got->{body} =~ /"$_":"([^"]*)"/ ? $1 : () } qw(code detail);
}

# What a process says of its database: /readyz, [events], [kinds of errors].
sub told ($identity) {
    my $ready = readyz($identity);
    my $text = $t->fcgi($identity->address)->request(GET => '/actuator/prometheus')->{body};
    return [ $ready, [ $identity->log_text =~ /"event":"db\.(refused|unavailable)"/g ],
        [ $text =~ /^identity_db_errors_total\{kind="(\w+)"\} [1-9]\d*$/mg ] ];
}

password($secret);
is +($t->run_identity(['seed']))[0], 0, 'migrated';
root($_) for 'create database unmigrated owner platform', 'create database closed',
    'revoke connect on database closed from public',
    "create role nologin password '$secret'";

my ($refused, $silent) = map {"503 DATABASE_UNAVAILABLE Check failed: database ($_)."}
    "it answers, but refuses the role, its password or the database's name", 'no answer';
my $good = serving();
is_deeply told($good), [ 200, [], [] ], 'the right password: ready, and no failure is counted';

for my $case (
    [ 'a wrong password', PLATFORM_DB_PASSWORD => 'wrong' ],
    [ 'an unknown role', PLATFORM_DB_USER => 'nobody' ],
    [ 'an unknown database', PLATFORM_DB_NAME => 'none' ],
    [ 'a database that lets it not in', PLATFORM_DB_NAME => 'closed' ],
    # The second server of the list is down: the first one's word counts.
    [ 'a wrong password, and a server down', PLATFORM_DB_PASSWORD => 'wrong',
        PLATFORM_DB_HOST => '127.0.0.1,127.0.0.1',
        PLATFORM_DB_PORT => "$pg->{port}," . $t->port('dead') ],
) {
    my ($name, %change) = @$case;
    my $identity = serving(%change);
    is readyz($identity), $refused, "$name: refused";
    is_deeply told($identity), [ $refused, ['refused'], ['login'] ], "$name: again; logged once";
    like $identity->log_text, qr/"level":"error".*"db\.refused".*(?:FATAL|no password supplied)/,
        "$name: the log says what the server said";
    unlike $identity->log_text, qr/hunter2/, "$name: and no secret";
    $t->stop($identity);
}

is_deeply told(serving(PLATFORM_DB_PORT => $t->port('dead'))),
    [ $silent, ['unavailable'], ['connect'] ], 'nobody listens: no answer';
like readyz(serving(PLATFORM_DB_NAME => 'unmigrated')),
    qr/^503 SERVICE_NOT_READY Check failed: migrations/, 'not migrated';

# One and the same process: refused, hanging, right again.

for my $case (
    [ 'the password changes', $refused, sub {
        password('another');
        root("select pg_terminate_backend(pid) from pg_stat_activity
            where usename = 'platform' and pid <> pg_backend_pid()");
    } ],
    [ 'the server hangs', $silent, sub { $pg->freeze('STOP') } ],
    [ 'it goes on', $refused, sub { $pg->freeze('CONT') } ],
    [ 'the password is back', 200, sub { password($secret) } ],
) {
    my ($name, $want, $do) = @$case;
    $do->();
    ok eventually(sub { readyz($good) eq $want }), $name;
}
is_deeply [ $good->log_text =~ /"event":"db\.(refused|unavailable|connected)"/g ],
    [qw(refused unavailable refused connected)], 'each change in the log, once';
is_deeply \@disclosed, [], 'and never a word of a setting to who asks';

$t->done;
