package Platform::Test::Postgres;

# A private PostgreSQL cluster: a copy of an empty one that is made once a
# build directory, with a role and a database called "platform".  Reached by
# a Unix socket, and by TCP where port => is given.

use strict;
use warnings;

use Fcntl qw(:flock);
use File::Temp qw(tempdir);
use IO::Handle;
use IPC::Open2;
use POSIX ();
use Time::HiRes qw(sleep time);

use Platform::Test::Env;
use Platform::Test::Process;

# dir, name; durable => 1 keeps fsync on; settings => { name => value };
# port => TCP port of 127.0.0.1; standby_of => another, whose streaming
# standby this becomes.
sub new {
    my ($class, %o) = @_;

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
        my $empty = empty_cluster();
        system('cp', '-a', $empty, $self->{data}) == 0
            or die "cannot copy the empty cluster\n";
        $self->_own($home);
    }
    $self->start;
    return $self;
}

sub _own {
    my ($self, @paths) = @_;

    return unless $self->{user};
    system('chown', '-R', "$self->{user}:", @paths) == 0
        or die "chown failed\n";
    return;
}

sub _copy_from {
    my ($self, $primary) = @_;

    my $user = $self->{user};
    my @as = $user
        ? ('setpriv', Platform::Test::Process::user_args($user), '--') : ();
    my @cmd = (@as, Platform::Test::Env::postgres('pg_basebackup'),
        '-h', $primary->{home}, '-p', $primary->{port} // 5432,
        '-U', 'postgres', '-D', $self->{data}, '-R', '--checkpoint=fast',
        '--no-sync');
    my $out = `cd $self->{home} && @cmd 2>&1`;
    die "@cmd failed:\n$out" if $? != 0;
    return;
}

# A standby begins to take writes.
sub promote {
    my ($self) = @_;

    return $self->sql('select pg_promote()', user => 'postgres');
}

sub start {
    my ($self) = @_;

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
sub wait_ready {
    my ($self) = @_;

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
sub stop {
    my ($self, $signal) = @_;

    my $process = delete $self->{process} or return ();
    my @problems = $process->stop($signal);

    # Backends of a killed server leave on their own.
    my $until = time + 60;
    while (time < $until
        && Platform::Test::Process::in_dir($self->{data}))
    {
        sleep 0.02;
    }
    return @problems;
}

# Stops ('STOP') or continues ('CONT') every process of the server: a machine
# that hangs.
sub freeze {
    my ($self, $signal) = @_;

    return kill $signal, Platform::Test::Process::in_dir($self->{data});
}

sub running { return $_[0]{process} ? 1 : 0 }

sub pid { return $_[0]{process}->pid }

# The directory of its socket, as a libpq host.
sub host { return $_[0]{home} }

# What identity-fcgi needs to know.
sub env {
    my ($self) = @_;

    return (
        PLATFORM_DB_HOST     => $self->{home},
        PLATFORM_DB_PORT     => $self->{port} // 5432,
        PLATFORM_DB_NAME     => 'platform',
        PLATFORM_DB_USER     => 'platform',
        PLATFORM_DB_PASSWORD => 'test',
    );
}

# Runs SQL as the owner of the database (or user => 'postgres'); returns what
# it printed, rows by newline, columns by |.  Dies when it fails.
sub sql {
    my ($self, $sql, %o) = @_;

    my @cmd = (Platform::Test::Env::postgres('psql'), '-XAtq',
        '-v', 'ON_ERROR_STOP=1', '-h', $self->{home},
        '-p', $self->{port} // 5432, '-U', $o{user} // 'platform',
        '-d', $o{db} // 'platform', '-c', $sql);
    my $pid = open(my $fh, '-|') // die "fork: $!\n";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        $ENV{PGCONNECT_TIMEOUT} = 60;
        $ENV{PGOPTIONS} = '-c client_min_messages=warning';
        exec @cmd or POSIX::_exit(127);
    }
    my $out = do { local $/; <$fh> } // '';
    close $fh or die "psql failed: $out\n";
    chomp $out;
    return $out;
}

# A transaction that stays open after some SQL: what that changed is locked,
# and unseen.  To be given to more() and end().
sub begin {
    my ($self, $sql, %o) = @_;

    my @cmd = (Platform::Test::Env::postgres('psql'), '-XAtq',
        '-v', 'ON_ERROR_STOP=1', '-h', $self->{home},
        '-p', $self->{port} // 5432, '-U', $o{user} // 'platform',
        '-d', 'platform');
    my $pid = open2(my $out, my $in, @cmd);
    my $transaction = { pid => $pid, in => $in, out => $out };
    $self->more($transaction, "begin; $sql");
    return $transaction;
}

# Runs more SQL in it; dies when that fails.
sub more {
    my ($self, $transaction, $sql) = @_;

    print { $transaction->{in} } "$sql;\n\\echo done\n";
    $transaction->{in}->flush;
    my $line;
    do { $line = readline($transaction->{out}) // die "psql ended\n" }
        until $line eq "done\n";
    return;
}

# Ends it: 'commit' or 'rollback'; true if that went well.
sub end {
    my ($self, $transaction, $how) = @_;

    print { $transaction->{in} } "$how;\n";
    close $transaction->{in};
    waitpid $transaction->{pid}, 0;
    return $? == 0;
}

# Whether so many backends wait for a lock, soon.
sub waiting {
    my ($self, $count, %o) = @_;

    my $sql = "select count(*) from pg_stat_activity
        where wait_event_type = 'Lock'";
    my $until = time + ($o{within} // 60);
    until ($self->sql($sql, user => 'postgres') == $count) {
        return 0 if time > $until;
        sleep 0.02;
    }
    return 1;
}

# The empty cluster; made under a lock at first use.
sub empty_cluster {
    my $cache = Platform::Test::Env::cache_dir();
    my $initdb = Platform::Test::Env::postgres('initdb');
    my ($version) = `$initdb --version` =~ /(\d+)/;
    my $empty = "$cache/cluster-$version";

    open my $lock, '>>', "$cache/cluster.lock" or die "cluster.lock: $!\n";
    flock $lock, LOCK_EX or die "flock: $!\n";
    return $empty if -d $empty;

    # Made elsewhere: the user of the server may not enter the build
    # directory.
    my $tmp = tempdir('platform-test-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    my $user = Platform::Test::Env::unprivileged();
    my @as = $user
        ? ('setpriv', Platform::Test::Process::user_args($user), '--') : ();
    if ($user) {
        system('chown', "$user:", $tmp) == 0 or die "chown failed\n";
    }
    my $make = sub {
        my $out = `@_ 2>&1`;
        die "@_ failed:\n$out" if $? != 0;
    };
    $make->("cd $tmp && @as", $initdb, '-D', "$tmp/data", '-U', 'postgres',
        '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync',
        '--wal-segsize=1');
    my $postgres = Platform::Test::Env::postgres('postgres');
    $make->("cd $tmp && printf '%s\\n' "
        . "'create role platform login' "
        . "'create database platform owner platform' "
        . "| @as $postgres --single -D $tmp/data postgres");
    system("cp -a $tmp/data $empty.new && mv $empty.new $empty") == 0
        or die "cannot keep $empty\n";
    return $empty;
}

1;
