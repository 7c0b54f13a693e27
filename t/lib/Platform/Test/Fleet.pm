package Platform::Test::Fleet;

# The fleet of docs/scaling.md on one machine: each host is a network namespace with
# the address that it has in examples/fleet, and runs what those files say.  Of them
# only the paths are others: each host's lie in a directory of its own.
#
# Only for a process whose network, mounts and processes are its own (t/deb/apart).

use v5.36;

use File::Copy qw(copy);
use File::Path qw(make_path);
use IO::Socket::SSL;
use JSON::PP ();
use POSIX qw(strftime);
use Time::HiRes qw(sleep time);

use Platform::Test::Env qw(eventually put slurp);
use Platform::Test::Http;
use Platform::Test::Process;

our $SOAK = Platform::Test::Env::root() . '/t/soak/fleet';
our %ADDRESS = (
    map({ ("db$_" => "10.0.0.1$_") } 1 .. 3), map({ ("id$_" => "10.0.0.2$_") } 1 .. 3),
    map({ ("gw$_" => "10.0.0.3$_") } 1, 2), lb => '10.0.0.40', app => '10.0.0.50',
    clients => '10.0.0.60',
    # The other region.
    id4 => '10.0.2.21', gw3 => '10.0.2.31', app2 => '10.0.2.50', farclients => '10.0.2.60',
);
my $BRIDGE = 'here0';
my $HERE = '10.0.0.100';
my @DB = qw(db1 db2 db3);
my %SECRET = map { $_ => join '', map { sprintf '%02x', rand 256 } 1 .. 16 }
    qw(SUPERUSER_PASSWORD REPLICATION_PASSWORD identity);

# What systemd does for a service that has a socket unit: the socket outlives it.
my $SOCKET_UNIT = <<'PERL';
    use IO::Socket::INET;
    my ($address, @command) = @ARGV;
    my $socket = IO::Socket::INET->new(LocalAddr => $address, Listen => 4096, ReuseAddr => 1)
        or die "$address: $!\n";
    my $pid;
    $SIG{HUP} = sub { kill TERM => $pid };
    while (1) {
        $pid = fork // die "fork: $!\n";
        if (!$pid) {
            $SIG{HUP} = 'DEFAULT';
            open STDIN, '<&', $socket or die "stdin: $!\n";
            exec @command or die "$command[0]: $!\n";
        }
        1 while waitpid($pid, 0) != $pid;
        sleep 1 if $?;
    }
PERL

sub new ($class, $dir, %o) {
    my $self = bless { dir => $dir, running => {}, %o }, $class;
    make_path("$dir/certificate");
    command(qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2),
        '-subj', '/CN=api.example.com', '-addext', 'subjectAltName=DNS:api.example.com',
        '-keyout', "$dir/certificate/privkey.pem", '-out', "$dir/certificate/fullchain.pem");
    command('cc', '-shared', '-fPIC', '-O2', '-o', "$dir/slow_fsync.so",
        "$SOAK/slow_fsync.c", '-ldl');
    $self->{keys} = join '', grep {!/^#/} lines(Platform::Test::Env::identity(),
        qw(keys generate));
    return $self;
}

sub command (@command) {
    my $out = join '', lines(@command);
    die "@command: $out" if $?;
    return $out;
}

sub lines (@command) {
    my $pid = open my $fh, '-|' // die "fork: $!\n";
    if (!$pid) {
        open STDERR, '>&', \*STDOUT;
        exec @command or die "$command[0]: $!\n";
    }
    my @lines = <$fh>;
    close $fh;
    return @lines;
}

# -- network --------------------------------------------------------------------------

sub network ($self) {
    make_path('/run/netns');
    command(qw(mount -t tmpfs tmpfs /run/netns));
    command(qw(ip link set lo up));
    $self->_bridge($BRIDGE);
    command('ip', 'address', 'add', "$HERE/16", 'dev', $BRIDGE);
    $self->_host($_, $BRIDGE) for grep { $ADDRESS{$_} =~ /^10\.0\.0/ } sort keys %ADDRESS;
    # Clients have an address each.
    command('ip', '-n', 'clients', 'address', 'add', "10.0.1.$_/16", 'dev', 'eth0') for 1 .. 40;
}

sub _bridge ($self, $name) {
    command(qw(ip link add), $name, qw(type bridge));
    command(qw(ip link set), $name, 'up');
}

sub _host ($self, $host, $bridge) {
    command(qw(ip netns add), $host);
    command(qw(ip link add), "to-$host", qw(type veth peer name eth0 netns), $host);
    command(qw(ip link set), "to-$host", 'master', $bridge, 'up');
    command(qw(ip -n), $host, qw(link set lo up));
    command(qw(ip -n), $host, qw(link set eth0 up));
    command(qw(ip -n), $host, qw(address add), "$ADDRESS{$host}/16", 'dev', 'eth0');
}

# A second place, behind a wire that takes $ms each way.
sub far ($self, $ms) {
    $self->_bridge('far0');
    $self->{relay} = $self->_start('here', 'relay', [
        "$SOAK/relay", 'near', 'far', $ms,
        "$self->{dir}/cut" ]);
    eventually(sub { lines(qw(ip link show far)); !$? }) or die "no relay\n";
    command(qw(ip link set near master), $BRIDGE, 'up');
    command(qw(ip link set far master far0 up));
    $self->_host($_, 'far0') for grep { $ADDRESS{$_} =~ /^10\.0\.2/ } sort keys %ADDRESS;
    command(qw(ip -n farclients address add), "10.0.3.$_/16", 'dev', 'eth0') for 21 .. 29;
    $self->start($_) for qw(id4 app2);
}

# Its gateway, with identity there ("far") or here ("near").
sub begin_far ($self, $identity) {
    my @hosts = $identity eq 'far' ? 'id4' : qw(id1 id2 id3);
    $self->{gateway_env}{gw3} = { GATEWAY_REAL_IP_HEADER => 'X-Forwarded-For',
        PLATFORM_ENTITLEMENT_URL => "http://$ADDRESS{app2}:8082",
        IDENTITY_UPSTREAM => '"' . join(' ', map { my $host = $_;
            map {"$ADDRESS{$host}:900$_"} 1, 2 } @hosts) . '"' };
    $self->stop('gw3', 'nginx', 'QUIT');
    $self->start('gw3');
}

sub wire ($self, $whole) {
    $whole ? unlink "$self->{dir}/cut" : put("$self->{dir}/cut", '');
}

# The host's cable, in or out.
sub cable ($self, $host, $in) { command(qw(ip link set), "to-$host", $in ? 'up' : 'down') }

# What goes from one host to others is thrown away, and so is what would answer it.
sub deaf ($self, $host, $to, $deaf) {
    command(qw(ip -n), $host, 'route', $deaf ? 'add' : 'del', 'blackhole', "$ADDRESS{$_}/32")
        for @$to;
}

# -- files and processes ------------------------------------------------------------------

# A file of examples/fleet as it is on that host; %also: what else is another.
sub file ($self, $name, $host, $to, %also) {
    my $text = slurp(Platform::Test::Env::root() . "/examples/fleet/$name")
        // die "no examples/fleet/$name\n";
    my ($kind) = $host =~ /^([a-z]+)/;
    my $of = $ADDRESS{"${kind}1"} // '';
    my %next = (id1 => 'id2', id2 => 'id3', id3 => 'id1', id4 => 'id1');
    $text = join "\n", map {
        my $all = () = /10\.0\.0\.\d+/g;
        $kind eq 'id' && /^PLATFORM_DB_HOST=/
            ? "PLATFORM_DB_HOST=$ADDRESS{$host},$ADDRESS{ $next{$host} }"
            : $all > 2 ? $_ : s/\b\Q$of\E\b/$ADDRESS{$host}/gr =~ s/\b${kind}1\b/$host/gr
    } split /\n/, $text, -1 if $of ne '';
    $text =~ s{(?<![\w.@/])/(etc|var/lib|run)/}{$self->{dir}/$host/$1/}g;
    $text =~ s/\b(SUPERUSER_PASSWORD|REPLICATION_PASSWORD)\b/$SECRET{$1}/g;
    $text =~ s/^$_=.*/$_=$also{$_}/m or $text .= "$_=$also{$_}\n" for sort keys %also;
    my $path = "$self->{dir}/$host/$to";
    make_path($path =~ s{/[^/]*\z}{}r);
    put($path, $text);
    return $path;
}

sub _start ($self, $host, $name, $command, %o) {
    my @in = $host eq 'here' ? () : (qw(ip netns exec), $host);
    my @as = $o{user} ? ('setpriv', Platform::Test::Process::user_args($o{user}), '--') : ();
    make_path("$self->{dir}/$host");
    return $self->{running}{$host}{$name} = Platform::Test::Process->start(name => "$host $name",
        dir => "$self->{dir}/$host", log => "$self->{dir}/$host/$name.log", deathsig => 'KILL',
        ok_status => ['any'], cmd => [ @in, @as, @$command ],
        env => { PATH => '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL => 'C.UTF-8',
            %{ $o{env} // {} } });
}

# A program that is no part of the fleet.
sub run ($self, $host, $name, @command) { return $self->_start($host, $name, \@command) }

# Starts what runs on a host; $only: that alone.
sub start ($self, $host, $only = undef) {
    my ($kind) = $host =~ /^([a-z]+)/;
    my %unit = $self->can("_units_$kind")->($self, $host);
    for my $name (sort keys %unit) {
        next if defined $only && $name !~ /^$only/;
        $self->_start($host, $name, @{ $unit{$name} });
    }
}

sub stop ($self, $host, $name, $signal = 'TERM') {
    my $process = delete $self->{running}{$host}{$name} // return;
    $process->stop($signal);
}

sub signal ($self, $host, $name, $signal) { $self->{running}{$host}{$name}->signal($signal) }

sub pids ($self, $host) { return map { /(\d+)/ } lines(qw(ip netns pids), $host) }

# As if its power failed.
sub power_off ($self, $host) {
    $self->cable($host, 0);
    while (my @pids = $self->pids($host)) {
        kill 'KILL', @pids;
        $_->alive for values %{ $self->{running}{$host} };
        sleep 0.02;
    }
    $self->{running}{$host} = {};
}

sub power_on ($self, $host) {
    $self->cable($host, 1);
    unlink glob "$self->{dir}/$host/run/*/*.pid";
    $self->start($host);
}

# -- what runs where ------------------------------------------------------------------------

sub _units_db ($self, $host) {
    my $home = "$self->{dir}/$host";
    my %etcd = $self->file('etcd.env', $host, 'etc/default/etcd') && map { /^(ETCD_\w+)=(.*)/ }
        split /\n/, slurp("$home/etc/default/etcd");
    my $patroni = $self->file('patroni.yml', $host, 'etc/patroni/config.yml');
    my $wal = "$home/var/lib/postgresql/wal";
    if (!-d $wal) {
        make_path($wal, map {"$home/$_"} qw(var/lib/postgresql/15 run/postgresql var/lib/etcd));
        command(qw(mount -t tmpfs -o size=1500m fleet), $wal);
        mkdir "$wal/platform";
        command('chown', '-R', 'postgres:', "$home/var/lib/postgresql", "$home/run/postgresql");
        chmod 0700, "$wal/platform";
    }
    return (
        etcd => [ ['etcd'], env => \%etcd ],
        patroni => [ [ 'patroni', $patroni ], user => 'postgres', env => {
            LD_PRELOAD => "$self->{dir}/slow_fsync.so", SLOW_FSYNC => "$home/slow" } ],
    );
}

sub _units_id ($self, $host) {
    my $home = "$self->{dir}/$host";
    my $bouncer = $self->file('pgbouncer.ini', $host, 'etc/pgbouncer/pgbouncer.ini');
    put("$home/etc/pgbouncer/userlist.txt", qq("identity" "$SECRET{identity}"\n));
    make_path("$home/run/postgresql");
    command('chown', '-R', 'postgres:', "$home/run/postgresql", "$home/etc/pgbouncer");
    my $proxy = $self->file('haproxy-database.cfg', $host, 'etc/haproxy/haproxy.cfg');
    my $env = $self->file('identity.env', $host, 'etc/platform-gateway/identity.env',
        PLATFORM_DB_PASSWORD => $SECRET{identity}, PLATFORM_AUDIT_LOG => 'stderr', $self->key);
    my $identity = Platform::Test::Env::identity();
    return (
        haproxy => [ [ qw(haproxy -W -db -f), $proxy ] ],
        pgbouncer => [ [ 'pgbouncer', $bouncer ], user => 'postgres' ],
        map { my $port = 9000 + $_;
            ("identity$_" => [ [ $^X, '-e', $SOCKET_UNIT, "$ADDRESS{$host}:$port",
                $identity, '--env-file', $env ] ]) } 1, 2,
    );
}

sub key ($self) { return $self->{keys} =~ /^(\w+)=(.*)$/mg }

sub _units_gw ($self, $host) {
    my $home = "$self->{dir}/$host";
    make_path(map {"$home/$_"} 'run', 'var/log', 'etc/ssl/api.example.com');
    copy("$self->{dir}/certificate/$_", "$home/etc/ssl/api.example.com/$_")
        for qw(fullchain.pem privkey.pem);
    my $env = $self->file('gateway.env', $host, 'etc/platform-gateway/gateway.env',
        %{ $self->{gateway_env}{$host} // {} });
    $self->render($host, $env, [qw(platform-http.conf gateway.conf identity.conf)]);
    return (nginx => [ [ qw(nginx -e stderr -c), "$home/etc/nginx.conf" ] ]);
}

# stub.conf is what `make run` has for a service behind the gateway.
sub _units_app ($self, $host) {
    my $home = "$self->{dir}/$host";
    make_path(map {"$home/$_"} 'run', 'var/log', 'etc');
    put("$home/etc/gateway.env", "HTTP_HOST=127.0.0.1\n");
    local $ENV{STUB_HOST} = $ADDRESS{$host};
    $self->render($host, "$home/etc/gateway.env", ['stub.conf']);
    return (nginx => [ [ qw(nginx -e stderr -c), "$home/etc/nginx.conf" ] ]);
}

sub _units_lb ($self, $host) {
    return (haproxy => [ [ qw(haproxy -W -db -f),
        $self->file('haproxy-gateways.cfg', $host, 'etc/haproxy/haproxy.cfg') ] ]);
}

sub render ($self, $host, $env, $include) {
    my $home = "$self->{dir}/$host";
    local @ENV{qw(RUN_DIR LOG_DIR MODULE_PATH ROUTES_DIR)} = ("$home/run", "$home/var/log",
        Platform::Test::Env::module(), "$home/etc/platform-gateway/routes.d");
    command(Platform::Test::Env::root() . '/tools/render', '--gateway-env', $env,
        '--out', "$home/etc/nginx", '--conf-dir', "$home/etc/nginx");
    put("$home/etc/nginx.conf", join "\n", 'user www-data;', 'worker_processes 2;',
        'daemon off;', "pid $home/run/nginx.pid;", "error_log $home/var/log/error.log;",
        'load_module ' . Platform::Test::Env::module() . ';', 'events { }', 'http {',
        map({"    ${_}_temp_path $home/run/$_;"} qw(client_body proxy fastcgi uwsgi scgi)),
        '    access_log off;', map({"    include $home/etc/nginx/$_;"} @$include), '}', '');
}

# -- the cluster ----------------------------------------------------------------------------

# What Patroni says of its members: { name => { role, state, lag } }.
sub members ($self) {
    for my $host (@DB) {
        my $res = eval { Platform::Test::Http->new(host => $ADDRESS{$host}, port => 8008,
            timeout => 2)->request(GET => '/cluster') } // next;
        my $all = eval { JSON::PP::decode_json($res->body)->{members} } // next;
        return { map { $_->{name} => $_ } @$all };
    }
    return {};
}

sub primary ($self) {
    my $members = $self->members;
    my @leads = grep { $members->{$_}{role} =~ /leader|master|primary/ } sort keys %$members;
    return @leads == 1 ? $leads[0] : undef;
}

# By psql on the primary, whichever that is.
sub sql ($self, $sql, %o) {
    local @ENV{qw(PGPASSWORD PGCONNECT_TIMEOUT PGOPTIONS)} = ($SECRET{SUPERUSER_PASSWORD}, 2,
        '-c client_min_messages=warning -c statement_timeout=20s');
    my $host = $self->primary // die "sql: no primary\n";
    my @lines = lines('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-h', $ADDRESS{$host},
        '-p', 5432, '-U', 'postgres', '-d', $o{db} // 'platform',
        $o{file} ? ('-f', $o{file}) : ('-c', $sql));
    die "sql: @lines" if $?;
    chomp @lines;
    return wantarray ? @lines : $lines[0];
}

# Everything is there: a primary, two standbys that follow it, one of them in step.
# Patroni promotes a standby that it has written down as such, which comes two seconds
# after PostgreSQL waits for it.
sub whole ($self) {
    my $members = $self->members;
    return 0 if keys %$members != 3 || !$self->primary;
    return 0 if grep { $_->{state} !~ /^(?:running|streaming)$/ } values %$members;
    return 0 if $self->{synchronous}
        && !grep { $_->{role} eq 'sync_standby' } values %$members;
    my @follow = eval { $self->sql('select sync_state from pg_stat_replication
        where state = \'streaming\'', db => 'postgres') };
    return @follow == 2 && (!$self->{synchronous} || grep { $_ eq 'sync' } @follow);
}

# Starts all hosts, and makes the database as docs/install.md does.
sub begin ($self) {
    $self->start($_) for @DB;
    eventually(sub { $self->whole }, 400) or die "no cluster\n";
    $self->sql('create database platform', db => 'postgres');
    my $roles = Platform::Test::Env::root() . '/db/roles.sql';
    $self->sql('', file => $roles);
    $self->sql("create role identity login in role platform_identity, platform_operator
        password '$SECRET{identity}'");
    my $env = $self->file('identity.env', 'id1', 'migrate.env', $self->key,
        PLATFORM_DB_HOST => join(',', @ADDRESS{@DB}), PLATFORM_DB_PORT => 5432,
        PLATFORM_DB_USER => 'postgres', PLATFORM_DB_PASSWORD => $SECRET{SUPERUSER_PASSWORD},
        PLATFORM_AUDIT_LOG => 'stderr');
    command(Platform::Test::Env::identity(), '--env-file', $env, 'migrate');
    $self->sql('', file => $roles);
    $self->start($_) for qw(id1 id2 id3 app gw1 gw2 lb);
    # The operator's machine.
    $self->file('identity.env', 'here', 'operator.env', $self->key,
        PLATFORM_DB_HOST => join(',', @ADDRESS{qw(id1 id2 id3)}),
        PLATFORM_DB_PASSWORD => $SECRET{identity}, PLATFORM_AUDIT_LOG => 'stderr');
}

sub end ($self) {
    $self->power_off($_) for grep { -e "/run/netns/$_" } sort keys %ADDRESS;
    lines('umount', $_) for glob "$self->{dir}/*/var/lib/postgresql/wal";
}

sub operator_command ($self) {
    return (Platform::Test::Env::identity(), '--env-file', "$self->{dir}/here/operator.env");
}

# A command of identity-fcgi, with that on its standard input.
sub operator ($self, $input, @command) {
    put("$self->{dir}/here/input", $$input);
    my $all = join ' ', $self->operator_command, @command;
    return command('sh', '-c', "$all <$self->{dir}/here/input");
}

sub patronictl ($self, @command) {
    my ($host) = grep { $self->pids($_) } @DB;
    return command('ip', 'netns', 'exec', $host, 'patronictl', '-c',
        "$self->{dir}/$host/etc/patroni/config.yml", @command);
}

# -- what is done to it ---------------------------------------------------------------------

# Sends processes of a host that signal, or only those of that name.
sub freeze ($self, $host, $signal, $name = undef) {
    kill $signal, grep { !defined $name || (slurp("/proc/$_/comm") // '') =~ /^\Q$name\E/ }
        $self->pids($host);
}

sub data ($self, $host) { return "$self->{dir}/$host/var/lib/postgresql/15/platform" }

sub kill_postgres ($self, $host) {
    my ($pid) = (slurp($self->data($host) . '/postmaster.pid') // '') =~ /\A(\d+)/;
    kill 'KILL', $pid if $pid;
}

# The standby without which nothing is committed.
sub in_step ($self) {
    return scalar $self->sql("select application_name from pg_stat_replication
        where sync_state = 'sync'", db => 'postgres');
}

sub slow ($self, $host, $ms) {
    put("$self->{dir}/$host/slow", "$ms\n");
    chmod 0644, "$self->{dir}/$host/slow";
}

sub fill ($self, $host, $full) {
    my $file = "$self->{dir}/$host/var/lib/postgresql/wal/filler";
    return unlink $file if !$full;
    open my $fh, '>', $file or die "$file: $!\n";
    1 while syswrite $fh, "\0" x 1048576;
    1 while syswrite $fh, "\0" x 4096;
    close $fh;
    # What is left of the log's files is used up.
    for (1 .. 40) {
        lines('timeout', '3', 'env', "PGPASSWORD=$SECRET{SUPERUSER_PASSWORD}", 'psql', '-XAtq',
            '-h', $ADDRESS{$host}, '-U', 'postgres', '-c', 'select pg_switch_wal()',
            '-c', "select pg_logical_emit_message(false, 'fill', 'fill')");
        last if $?;
    }
}

# Now, or so many seconds from now, for `sessions revoke --since`.
sub moment ($self, $seconds) {
    return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime time + $seconds);
}

# One request of somebody else, through the balancer: (status, body).
sub ask ($self, $method, $path, %o) {
    my $fh = IO::Socket::SSL->new(PeerAddr => $ADDRESS{lb}, PeerPort => 443, Timeout => 5,
        SSL_hostname => 'api.example.com', SSL_verifycn_name => 'api.example.com',
        SSL_verifycn_scheme => 'http', SSL_ca_file => "$self->{dir}/certificate/fullchain.pem")
        // return (0, '');
    my $res = eval { Platform::Test::Http->new(fh => $fh, timeout => 10)->request($method, $path,
        headers => [ 'User-Agent' => 'fleet', 'Content-Type' => 'application/json' ], %o) };
    return $res ? ($res->status, $res->body) : (0, '');
}

sub state ($self) { return JSON::PP->new->canonical->encode($self->members) }

1;
