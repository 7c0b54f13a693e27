package Platform::Test::Postgres;

# A private PostgreSQL cluster: a copy of one that is made once a build, with a
# role and a database called "platform", migrated and seeded unless empty =>
# is given; where PLATFORM_TEST_PARTITIONS says how many, its sessions are in partitions.
# Reached by a Unix socket, and by TCP where port => is given.

use v5.36;

use Fcntl qw(:flock);
use File::Temp qw(tempdir);
use POSIX qw(strftime);

use Platform::Test::Env qw(eventually slurp);
use Platform::Test::Process;
use Platform::Test::Sql;

our @ISA = qw(Platform::Test::Daemon);

# dir, name; empty => 1: the database has nothing; durable => 1 keeps fsync on;
# settings => { name => value }; port => TCP port of 127.0.0.1; via => [what runs it];
# standby_of => another, whose streaming standby this becomes.
sub new ($class, %o) {
    my $home = "$o{dir}/$o{name}";
    my $self = bless { port => 5432, %o, tcp => $o{port}, home => $home,
        data => "$home/data", log => "$o{dir}/$o{name}.log" }, $class;

    mkdir $home or die "$home: $!\n";
    if (my $primary = $o{standby_of}) {
        _own($home);
        _run("cd $home &&", _as(), Platform::Test::Env::postgres('pg_basebackup'),
            '-h', $primary->{home}, '-p', $primary->{port}, '-U', 'postgres',
            '-D', $self->{data}, '-R', '--checkpoint=fast', '--no-sync');
    }
    else {
        _copy($self->{data}, $self->{empty});
        _own($home);
    }
    return $self->start;
}

# Where we are root, the server has a user of its own.
sub _as {
    my $user = Platform::Test::Env::unprivileged() // return ();
    return ('setpriv', Platform::Test::Process::user_args($user), '--');
}

sub _own ($path) {
    my $user = Platform::Test::Env::unprivileged() // return;
    _run('chown', '-R', "$user:", $path);
}

sub _run (@command) {
    my $out = `@command 2>&1`;
    return $? == 0 ? $out : die "@command failed:\n$out";
}

# A standby begins to take writes.
sub promote ($self) { return $self->sql('select pg_promote()', user => 'postgres') }

sub start ($self) {
    my $durable = $self->{durable} ? 'on' : 'off';
    my %set = (
        unix_socket_directories => $self->{home},
        listen_addresses        => $self->{tcp} ? '127.0.0.1' : '',
        port                    => $self->{port},
        fsync => $durable, full_page_writes => $durable,
        max_connections => 200, shared_buffers => '32MB',
        jit => 'off', log_min_messages => 'warning',
        %{ $self->{settings} // {} },
    );
    my $pidfile = "$self->{data}/postmaster.pid";
    unlink $pidfile;
    return $self->launch(
        sub { (slurp($pidfile) // '') =~ /\A(?:.*\n){7}(?:ready|standby)/ },
        dir  => $self->{home},
        log  => $self->{log},
        user => Platform::Test::Env::unprivileged(),
        env  => { LC_ALL => 'C' },
        cmd  => [ @{ $self->{via} // [] }, Platform::Test::Env::postgres('postgres'),
            '-D', $self->{data}, map { ('-c', "$_=$set{$_}") } sort keys %set ],
        deathsig => 'QUIT', stop_signal => 'QUIT', ok_status => ['any']);
}

# Stops it: 'QUIT' at once, 'INT' in order, 'KILL' as a crash, after which
# backends leave on their own.
sub stop ($self, $signal = undef) {
    my @problems = $self->SUPER::stop($signal);
    eventually(sub { !Platform::Test::Process::in_dir($self->{data}) });
    return @problems;
}

# Stops ('STOP') or continues ('CONT') every process of the server, as if its machine
# hung.
sub freeze ($self, $signal) {
    return kill $signal, Platform::Test::Process::in_dir($self->{data});
}

# The directory of its socket, as a libpq host.
sub host ($self) { return $self->{home} }

# What the server has logged since the last call.
sub logged ($self) {
    my $log = slurp($self->{log}) // '';
    my $new = substr $log, $self->{read} // 0;
    $self->{read} = length $log;
    return $new;
}

# What identity-fcgi needs to know.
sub env ($self) {
    return (PLATFORM_DB_HOST => $self->{home}, PLATFORM_DB_PORT => $self->{port},
        PLATFORM_DB_PASSWORD => 'test', map { ("PLATFORM_DB_$_" => 'platform') } qw(NAME USER));
}

# A connection; user, db => others than its owner and the database.
sub connect ($self, %o) {
    return Platform::Test::Sql->new("$self->{home}/.s.PGSQL.$self->{port}",
        user => $o{user} // 'platform', database => $o{db} // 'platform');
}

# Runs SQL as the owner of the database (or user => 'postgres'); returns what
# it gives, rows by newline, columns by |.  Dies when it fails.
sub sql ($self, $sql, %o) {
    my $connection = $self->connect(%o);
    my $got = $connection->run($sql);
    $connection->close;
    return $got;
}

# Changes a setting of the server: 'name = value'.
sub setting ($self, $set) {
    $self->sql($_, user => 'postgres') for "alter system set $set", 'select pg_reload_conf()';
}

# Puts the sessions into so many partitions; what the script says.  Dies when it fails.
sub partition ($self, $count) {
    return _run(Platform::Test::Env::postgres('psql'), '-X', '-h', $self->{home}, '-p',
        $self->{port}, qw(-U postgres -d platform -v), "partitions=$count", '-qf',
        Platform::Test::Env::root() . '/db/partition.sql');
}

# Runs SQL in a transaction that stays open: its changes are locked, and others do not
# see them.  Give the result to more() and end().
sub begin ($self, $sql = undef, %o) {
    my $transaction = $self->connect(%o);
    $transaction->run("begin; $sql");
    return $transaction;
}

# Runs more SQL in it; dies when that fails.
sub more ($self, $transaction, $sql) { return $transaction->run($sql) }

# Ends it: 'commit' or 'rollback'; true if that went well.
sub end ($self, $transaction, $how) {
    return eval { $transaction->run($how); $transaction->close; 1 } // 0;
}

# Waits until so many backends wait for a lock; whether they do.
sub waiting ($self, $count, %o) {
    my $sql = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    return eventually(sub { $self->sql($sql, user => 'postgres') == $count }, $o{within});
}

# Copies the empty cluster, or the one that identity-fcgi, as it was built last,
# has migrated and seeded this month.  Each is made under a lock at first use.
sub _copy ($to, $empty) {
    my $cache = Platform::Test::Env::cache_dir();
    my $initdb = Platform::Test::Env::postgres('initdb');
    my ($version) = `$initdb --version` =~ /(\d+)/;
    my $build = (stat Platform::Test::Env::identity())[9] // 0;
    my $parts = $ENV{PLATFORM_TEST_PARTITIONS} // 0;
    # Its audit has a partition for the month and for the next one.
    my $month = strftime('%Y-%m', gmtime);
    my ($from, $name, $make) = $empty ? ("$cache/cluster-$version", 'empty', \&_make_empty)
        : ("$cache/cluster-$version-$build-$parts-$month", 'seeded', \&_make_seeded);

    open my $lock, '>>', "$cache/$name.lock" or die "$cache/$name.lock: $!\n";
    flock $lock, LOCK_SH or die "flock: $!\n";
    flock $lock, LOCK_EX or die "flock: $!\n" if !-d $from;
    if (!-d $from) {
        # Made elsewhere: the user of the server may not enter the build
        # directory.
        my $tmp = tempdir('platform-test-XXXXXX', TMPDIR => 1, CLEANUP => 1);
        chmod 0755, $tmp;
        $make->($tmp);
        my $old = $empty ? '' : "$cache/cluster-*-*";
        _run("rm -rf $old; cp -a $tmp/data $from.new && mv $from.new $from");
    }
    _run('cp', '-a', $from, $to);
}

# Drops the template databases, which nobody needs: each has three hundred files.
sub _make_empty ($tmp) {
    my ($initdb, $postgres) = map { Platform::Test::Env::postgres($_) } qw(initdb postgres);
    _own($tmp);
    _run("cd $tmp &&", _as(), $initdb, '-D', "$tmp/data", qw(-U postgres --auth=trust
        --encoding=UTF8 --locale=C --no-sync --wal-segsize=1));
    _run("cd $tmp && printf '%s\\n'", (map {qq("$_")} 'create role platform login',
        'create database platform owner platform', 'drop database postgres',
        q{update pg_database set datistemplate = false where datname = 'template0'},
        'drop database template0'), '|', _as(), $postgres, "--single -D $tmp/data template1");
}

sub _make_seeded ($tmp) {
    my $pg = __PACKAGE__->new(dir => $tmp, name => 'made', empty => 1);
    my %env = (APP_ENV => 'local', $pg->env, Platform::Test::Env::mode_env($tmp, name => 'seed'));
    _run('env -i', (map {"'$_=$env{$_}'"} sort keys %env), Platform::Test::Env::identity(), 'seed');
    $pg->partition($ENV{PLATFORM_TEST_PARTITIONS}) if $ENV{PLATFORM_TEST_PARTITIONS};
    $pg->stop('INT');
    rename $pg->{data}, "$tmp/data" or die "$tmp/data: $!\n";
}

1;
