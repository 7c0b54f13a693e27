package Platform::Test::Postgres;

# A private PostgreSQL cluster: a copy of one that is made once a build, with a
# role and a database called "platform", migrated and seeded unless empty =>
# is given.  Reached by a Unix socket, and by TCP where port => is given.

use v5.36;

use Fcntl qw(:flock);
use File::Temp qw(tempdir);
use Time::HiRes qw(sleep time);

use Platform::Test::Env;
use Platform::Test::Process;
use Platform::Test::Sql;

# dir, name; empty => 1: the database has nothing; durable => 1 keeps fsync on;
# settings => { name => value }; port => TCP port of 127.0.0.1; standby_of =>
# another, whose streaming standby this becomes.
sub new ($class, %o) {
    my $home = "$o{dir}/$o{name}";
    my $self = bless {
        %o,
        home => $home,
        data => "$home/data",
        log  => "$o{dir}/$o{name}.log",
        user => Platform::Test::Env::unprivileged(),
    }, $class;

    mkdir $home or die "$home: $!\n";
    if (my $primary = $o{standby_of}) {
        $self->_own($home);
        $self->_copy_from($primary);
    }
    else {
        _copy($self->{data}, $self->{empty});
        $self->_own($home);
    }
    $self->start;
    return $self;
}

sub _own ($self, @paths) {
    return unless $self->{user};
    system('chown', '-R', "$self->{user}:", @paths) == 0 or die "chown failed\n";
}

sub _copy_from ($self, $primary) {
    my $user = $self->{user};
    my @as = $user ? ('setpriv', Platform::Test::Process::user_args($user), '--') : ();
    my @cmd = (@as, Platform::Test::Env::postgres('pg_basebackup'),
        '-h', $primary->{home}, '-p', $primary->{port} // 5432,
        '-U', 'postgres', '-D', $self->{data}, '-R', '--checkpoint=fast',
        '--no-sync');
    my $out = `cd $self->{home} && @cmd 2>&1`;
    die "@cmd failed:\n$out" if $? != 0;
}

# A standby begins to take writes.
sub promote ($self) {
    return $self->sql('select pg_promote()', user => 'postgres');
}

sub start ($self) {
    my $durable = $self->{durable} ? 'on' : 'off';
    my %set = (
        unix_socket_directories => $self->{home},
        listen_addresses        => $self->{port} ? '127.0.0.1' : '',
        port                    => $self->{port} // 5432,
        fsync                   => $durable,
        full_page_writes        => $durable,
        max_connections         => 200,
        shared_buffers          => '32MB',
        jit                     => 'off',
        log_min_messages        => 'warning',
        %{ $self->{settings} // {} },
    );
    unlink "$self->{data}/postmaster.pid";
    $self->{process} = Platform::Test::Process->start(
        name => $self->{name},
        dir  => $self->{home},
        log  => $self->{log},
        user => $self->{user},
        env  => { LC_ALL => 'C' },
        cmd  => [ Platform::Test::Env::postgres('postgres'),
            '-D', $self->{data}, map { ('-c', "$_=$set{$_}") } sort keys %set ],
        deathsig    => 'QUIT',
        stop_signal => 'QUIT',
        stop_wait   => 60,
        ok_status   => ['any'],
    );
    $self->wait_ready;
    return $self;
}

# Waits until connections are accepted.
sub wait_ready ($self) {
    my $until = time + 60;
    while (1) {
        if (open my $fh, '<', "$self->{data}/postmaster.pid") {
            my @lines = <$fh>;
            return if ($lines[7] // '') =~ /^(?:ready|standby)/;
        }
        die "$self->{name} did not start, see $self->{log}\n"
            if time > $until || !$self->{process}->alive;
        sleep 0.01;
    }
}

# Stops it: 'QUIT' at once, 'INT' in order, 'KILL' as a crash.
sub stop ($self, $signal = undef) {
    my $process = delete $self->{process} or return ();
    my @problems = $process->stop($signal);

    # Backends of a killed server leave on their own.
    my $until = time + 60;
    while (time < $until && Platform::Test::Process::in_dir($self->{data}))
    {
        sleep 0.02;
    }
    return @problems;
}

# Stops ('STOP') or continues ('CONT') every process of the server: a machine
# that hangs.
sub freeze ($self, $signal) {
    return kill $signal, Platform::Test::Process::in_dir($self->{data});
}

sub running { return $_[0]{process} ? 1 : 0 }

sub pid { return $_[0]{process}->pid }

# The directory of its socket, as a libpq host.
sub host { return $_[0]{home} }

# What identity-fcgi needs to know.
sub env ($self) {
    return (
        PLATFORM_DB_HOST     => $self->{home},
        PLATFORM_DB_PORT     => $self->{port} // 5432,
        PLATFORM_DB_NAME     => 'platform',
        PLATFORM_DB_USER     => 'platform',
        PLATFORM_DB_PASSWORD => 'test',
    );
}

# A connection; user, db => others than its owner and the database.
sub connect ($self, %o) {
    return Platform::Test::Sql->new(
        "$self->{home}/.s.PGSQL." . ($self->{port} // 5432),
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

# A transaction that stays open after some SQL: what that changed is locked,
# and unseen.  To be given to more() and end().
sub begin ($self, $sql = undef, %o) {
    my $transaction = $self->connect(%o);
    $transaction->run("begin; $sql");
    return $transaction;
}

# Runs more SQL in it; dies when that fails.
sub more { my ($self, $transaction, $sql) = @_; return $transaction->run($sql) }

# Ends it: 'commit' or 'rollback'; true if that went well.
sub end ($self, $transaction, $how) {
    return eval { $transaction->run($how); $transaction->close; 1 } // 0;
}

# Whether so many backends wait for a lock, soon.
sub waiting ($self, $count, %o) {
    my $sql = "select count(*) from pg_stat_activity
        where wait_event_type = 'Lock'";
    my $until = time + ($o{within} // 60);
    until ($self->sql($sql, user => 'postgres') == $count) {
        return 0 if time > $until;
        sleep 0.02;
    }
    return 1;
}

# Copies the empty cluster, or the one that identity-fcgi, as it was built last,
# has migrated and seeded.  Each is made under a lock at first use.
sub _copy ($to, $empty) {
    my $cache = Platform::Test::Env::cache_dir();
    my $initdb = Platform::Test::Env::postgres('initdb');
    my ($version) = `$initdb --version` =~ /(\d+)/;
    my $from = "$cache/cluster-$version";
    my $make = \&_make_empty;
    if (!$empty) {
        my $build = (stat Platform::Test::Env::identity())[9] // 0;
        ($from, $make) = ("$from-$build", \&_make_seeded);
    }

    my $name = $cache . ($empty ? '/empty.lock' : '/seeded.lock');
    open my $lock, '>>', $name or die "$name: $!\n";
    flock $lock, LOCK_SH or die "flock: $!\n";
    if (!-d $from) {
        flock $lock, LOCK_EX or die "flock: $!\n";
    }
    if (!-d $from) {
        # Made elsewhere: the user of the server may not enter the build
        # directory.
        my $tmp = tempdir('platform-test-XXXXXX', TMPDIR => 1, CLEANUP => 1);
        chmod 0755, $tmp;
        $make->($tmp, $cache);
        my $old = $empty ? '' : "$cache/cluster-*-*";
        system("rm -rf $old; cp -a $tmp/data $from.new && mv $from.new $from") == 0
            or die "cannot keep $from\n";
    }
    system('cp', '-a', $from, $to) == 0 or die "cannot copy $from\n";
}

# Templates for databases are not needed: each has three hundred files.
sub _make_empty {
    my ($tmp) = @_;

    my $user = Platform::Test::Env::unprivileged();
    my @as = $user ? ('setpriv', Platform::Test::Process::user_args($user), '--') : ();
    if ($user) {
        system('chown', "$user:", $tmp) == 0 or die "chown failed\n";
    }
    my $run = sub {
        my $out = `@_ 2>&1`;
        die "@_ failed:\n$out" if $? != 0;
    };
    $run->("cd $tmp && @as", Platform::Test::Env::postgres('initdb'),
        '-D', "$tmp/data", '-U', 'postgres', '--auth=trust',
        '--encoding=UTF8', '--locale=C', '--no-sync', '--wal-segsize=1');
    my $postgres = Platform::Test::Env::postgres('postgres');
    $run->("cd $tmp && printf '%s\\n' " . "'create role platform login' "
        . "'create database platform owner platform' "
        . "'drop database postgres' "
        . q{"update pg_database set datistemplate = false }
        . q{where datname = 'template0'" 'drop database template0' }
        . "| @as $postgres --single -D $tmp/data template1");
}

sub _make_seeded ($tmp, $=) {
    my $pg = __PACKAGE__->new(dir => $tmp, name => 'made', empty => 1);
    my $process = Platform::Test::Process->start(
        name => 'seed', dir => $tmp, log => "$tmp/seed.log",
        env => { APP_ENV => 'local', $pg->env,
            Platform::Test::Env::mode_env($tmp, name => 'seed') },
        cmd => [ Platform::Test::Env::identity(), 'seed' ],
    );
    $process->wait_end(60 * Platform::Test::Env::scale());
    if (!defined $process->status || $process->status != 0) {
        open my $log, '<', "$tmp/seed.log";
        die "cannot seed a database:\n", <$log>;
    }
    $pg->stop('INT');
    rename $pg->{data}, "$tmp/data" or die "$tmp/data: $!\n";
}

1;
