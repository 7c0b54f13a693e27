package Bench::Identity::Stage;

# What is measured, as an installation runs it: PostgreSQL that writes durably,
# identity-fcgi, and nginx with the project's own templates; the floor program
# behind the same nginx; sessions generated in SQL, and tokens for them.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use Platform::Test;

use Bench::Cpu;

our $THREADS = 16;    # the service's default, and the floor's

# Settings of the cluster that differ from PostgreSQL's defaults; its manual recommends
# a quarter of the memory.
our %SETTINGS = (
    shared_buffers => int(memory_mib() / 4) . 'MB',
    max_wal_size   => '8GB',
    min_wal_size   => '1GB',
);

# Without the higher priority that tests give it.
$Platform::Test::Identity::AS_INSTALLED = 1;

our $ISSUER = 'http://identity.bench.test';

sub memory_mib {
    open my $fh, '<', '/proc/meminfo' or return 4096;
    my ($kb) = map { /^MemTotal:\s*(\d+)/ } <$fh>;
    return int($kb / 1024);
}

# extra => { NAME => { variables } }: further identity processes; env => { variables }
# of all of them; connections => of nginx, nginx => its further lines; databases => [names]: made first; floor => 0:
# without the floor program's face.
sub new {
    my ($class, %o) = @_;

    my $self = bless {
        t       => Platform::Test->new(disk => 1, timeout => 36_000),
        backend => {},
        extra   => $o{extra} // {},
        floor   => $o{floor},
        env     => $o{env} // {},
        nginx       => $o{nginx} // '',
        connections => $o{connections} // 1024,
    }, $class;
    $self->_start_postgres;
    $self->pg->sql("create database $_ owner platform", user => 'postgres',
        db => 'postgres') for @{ $o{databases} // [] };
    $self->_start_servers;
    return $self;
}

sub t { return $_[0]{t} }

sub pg { return $_[0]{t}->postgres }

sub finish { my ($self) = @_; return $self->{t}->finish }

# -- servers ------------------------------------------------------------------

sub _start_postgres {
    my ($self) = @_;

    my $t = $self->{t};
    my $pg = $t->postgres(durable => 1, settings => \%SETTINGS);

    # Segments of a megabyte are for tests; these are PostgreSQL's own.
    $pg->stop('INT');
    my $user = Platform::Test::Env::unprivileged();
    my @as = $user
        ? ('setpriv', Platform::Test::Process::user_args($user), '--') : ();
    my $resetwal = Platform::Test::Env::postgres('pg_resetwal');
    my $said = `@as $resetwal --wal-segsize=16 -D $pg->{data} 2>&1`;
    die "pg_resetwal failed: $said\n" if $? != 0;
    $pg->start;
    return;
}

sub _start_servers {
    my ($self) = @_;

    my $t = $self->{t};
    $self->{key_file} = $t->write_file('bench-key.pem',
        jwt_key('identity')->private_pem);
    my %env = (PLATFORM_JWT_ISSUER => $ISSUER, %{ $self->{env} });
    my %identity = (identity => $t->identity(%env));
    for my $name (sort keys %{ $self->{extra} }) {
        $identity{$name}
            = $t->identity(name => $name, %env, %{ $self->{extra}{$name} });
    }
    my %address = map { $_ => $identity{$_}->nginx_address }
        grep { $_ ne 'identity' } keys %identity;
    $address{floor} = 'unix:' . $self->_floor_socket if $self->{floor};

    $self->{stack} = $t->full_stack(identity => $identity{identity},
        env => \%env,
        edit => sub { $_ = $self->_nginx_conf($_, %address) });
    $self->{backend} = {
        map {
            my $process = $identity{$_}->process;
            $_ => { port => $t->port($_), process => $process }
        } keys %identity
    };
    return;
}

# One worker, and for each further backend a face like the rendered one.
sub _nginx_conf {
    my ($self, $conf, %address) = @_;

    my $t = $self->{t};
    my $face = $t->read_file('rendered/identity.conf');
    my $port = $t->port('identity');
    my $more = '';
    for my $name (sort keys %address) {
        my $copy = $face =~ s/\bplatform_identity\b/bench_$name/gr;
        $copy =~ s/(listen [^;]*:)$port;/$1 . $t->port($name) . ';'/e
            or die "no listen in the rendered identity.conf\n";
        $t->write_file("rendered/bench-$name.conf",
            "upstream bench_$name { server $address{$name}; }\n$copy");
        $more .= "    include bench-$name.conf;\n";
    }
    $conf =~ s/worker_processes auto;/worker_processes 1;\n$self->{nginx}/
        or die "no worker_processes in the rendered nginx.conf\n";
    $conf =~ s/(?<=worker_connections )1024/$self->{connections}/
        or die "no worker_connections in the rendered nginx.conf\n";
    $conf =~ s/(\n\})\s*\z/\n    keepalive_requests 100000000;\n$more$1\n/
        or die "no end of the rendered nginx.conf\n";
    return $conf;
}

sub _floor_socket { return "$_[0]{t}{dir}/floor.sock" }

# Starts the floor program on sessions of these numbers; it answers with what the service
# answered.
sub start_floor {
    my ($self, $first, $last, $response) = @_;

    my $t = $self->{t};
    my $socket = $self->_floor_socket;
    my %pg = $self->pg->env;
    my $process = Platform::Test::Process->start(
        name => 'floor',
        dir  => $t->dir,
        log  => $t->dir . '/floor.log',
        cmd  => [ 'sh', '-c', 'in=$1; shift; exec "$@" <"$in"', 'sh',
            $t->write_file('floor.response', $response),
            program('floor_fcgi'), $self->{key_file},
            "host=$pg{PLATFORM_DB_HOST} port=$pg{PLATFORM_DB_PORT}"
                . " dbname=$pg{PLATFORM_DB_NAME} user=$pg{PLATFORM_DB_USER}",
            $THREADS, $socket, $first, $last ],
        ok_status => ['any'],
    );
    $t->track($process);
    eventually(sub { -S $socket }, 10) or die "the floor did not start\n";
    $self->{backend}{floor}
        = { port => $t->port('floor'), process => $process };
    return;
}

sub program {
    my ($name) = @_;

    my $path = Platform::Test::Env::build() . "/bench/$name";
    die "$path is missing: make bench-programs\n" unless -x $path;
    return $path;
}

# Another name of a backend, for other requests to it.
sub alias {
    my ($self, $alias, $name) = @_;

    $self->{backend}{$alias} = $self->{backend}{$name};
    return;
}

sub port { my ($self, $name) = @_; return $self->{backend}{$name}{port} }

# What has been used since they started: microseconds by who.
sub cpu {
    my ($self, $name) = @_;

    my ($nginx) = $self->{stack}->nginx->workers;
    return {
        identity => process_cpu_us($self->{backend}{$name}{process}->pid),
        postgres => tree_cpu_us($self->pg->pid),
        nginx    => process_cpu_us($nginx),
    };
}

# Microseconds of processor time of one operation while all cores do it, by the
# service's key or another.
sub floor {
    my ($self, $kind, $ms, $key) = @_;

    my @cmd = (program('floors'), $self->_pem($key, 'floor'), $ms, qx{nproc} + 0,
        $kind);
    my $us = qx{@cmd};
    die "@cmd failed\n" if $? != 0;
    return $us + 0;
}

# A file of a key; without one, that of the service.
sub _pem {
    my ($self, $key, $name) = @_;

    return $key ? $self->{t}->write_file("$name.pem", $key->private_pem)
        : $self->{key_file};
}

# -- sessions and tokens --------------------------------------------------------
# Every id is a digest of a number, so rows lie as scattered as random ids
# would and are yet known here.

sub _uuid {
    my ($what, $n) = @_;

    my $hex = md5_hex("$what$n");
    return join '-', unpack 'A8 A4 A4 A4 A12', $hex;
}

sub accounts { my ($sessions) = @_; return int($sessions / 10) || 1 }

# Ten sessions an account, ten accounts a workspace; each session in branch
# scope.  more => { column => SQL }: further columns of sessions.
sub generate {
    my ($self, $sessions, $db, %more) = @_;

    my $accounts = accounts($sessions);
    my $workspaces = int($accounts / 10) || 1;
    my $id = sub { my ($what, $n) = @_; return "md5('$what' || $n)::uuid" };
    my ($w, $b) = map { $id->($_ => "1 + n % $workspaces") } qw(w b);
    my ($sw, $sb)
        = map { $id->($_ => "1 + (1 + n % $accounts) % $workspaces") } qw(w b);
    my ($sa, $sm) = map { $id->($_ => "1 + n % $accounts") } qw(a m);
    $self->pg->sql(<<"SQL", user => 'postgres', db => $db);
set session_replication_role = replica;    -- triggers would take minutes
set synchronous_commit = off;
insert into workspaces (workspace_id, tenant_id, workspace_name)
select @{[ $id->(w => 'n') ]}, (select min(tenant_id::text)::uuid from tenants),
       'Workspace ' || n from generate_series(1, $workspaces) n;
insert into branches (branch_id, workspace_id, branch_name)
select @{[ $id->(b => 'n') ]}, @{[ $id->(w => 'n') ]}, 'Branch ' || n
  from generate_series(1, $workspaces) n;
insert into accounts (account_id, account_name, credential_hash)
select @{[ $id->(a => 'n') ]}, 'bench' || n || '\@bench.test',
       (select credential_hash from accounts
         where account_name = 'one\@demo.test')
  from generate_series(1, $accounts) n;
insert into members (member_id, account_id, workspace_id)
select @{[ $id->(m => 'n') ]}, @{[ $id->(a => 'n') ]}, $w
  from generate_series(1, $accounts) n;
insert into branch_grants (member_id, branch_id, workspace_id)
select @{[ $id->(m => 'n') ]}, $b, $w from generate_series(1, $accounts) n;
insert into member_roles (member_id, branch_id, role_code)
select @{[ $id->(m => 'n') ]}, $b, role
  from generate_series(1, $accounts) n,
       unnest(array['BRANCH_MANAGER', 'CASHIER']) role;
insert into auth_sessions (session_id, account_id, workspace_id, member_id,
                           active_branch_id, jti, created_at, expires_at
                           @{[ map {", $_"} sort keys %more ]})
select @{[ $id->(s => 'n') ]}, $sa, $sw, $sm, $sb, @{[ $id->(j => 'n') ]},
       now() - interval '1 day', now() + interval '29 days'
       @{[ map {", $more{$_}"} sort keys %more ]}
  from generate_series(1, $sessions) n;
SQL
    $self->pg->sql($_, user => 'postgres', db => $db)
        for 'vacuum analyze', 'checkpoint';
    return;
}

# So many clients with two scopes and a secret; what each sends as Basic.
sub clients {
    my ($self, $count) = @_;

    my $id = "md5('c' || n)::uuid";
    $self->pg->sql(<<"SQL", user => 'postgres');
insert into accounts (account_id, account_name, account_type, credential_hash)
select $id, 'client' || n, 'SYSTEM', '\$argon2id\$x' from generate_series(1, $count) n;
insert into client_scopes (account_id, scope)
select $id, scope from generate_series(1, $count) n,
       unnest(array['people:read', 'people:write']) scope;
insert into client_secrets (account_id, secret_sha256)
select $id, sha256(convert_to('pgs_' || md5('secret' || n), 'UTF8'))
  from generate_series(1, $count) n;
SQL
    return map {
        encode_base64(_uuid(c => $_) . ':pgs_' . md5_hex("secret$_"), '')
    } 1 .. $count;
}

# Gives the sessions of a database the jti again that they were generated with.
sub reset {
    my ($self, $db) = @_;

    my $sessions = $self->pg->sql('select count(*) from auth_sessions',
        db => $db);
    $self->pg->sql("update auth_sessions set jti = md5('j' || n)::uuid
        from generate_series(1, $sessions) n
        where session_id = md5('s' || n)::uuid", db => $db);
    return;
}

# A file of refresh tokens for the sessions with these numbers out of $of, as
# the service gave them when the sessions began.
sub mint { my ($self, @o) = @_; return $self->mint_by(undef, @o) }

# The same by another key.
sub mint_by {
    my ($self, $key, $name, $of, @numbers) = @_;

    my ($iat, $accounts) = (time - 86_400, accounts($of));
    my $json = JSON::PP->new->canonical;
    my $input = $self->{t}->write_file("$name.in", join '', map {"$_\n"}
        ($key // jwt_key('identity'))->kid,
        $json->encode({ iss => $ISSUER, sub => '#2', account_id => '#2',
            session_id => '#1', jti => '#3', token_type => 'refresh',
            iat => $iat, exp => $iat + 30 * 86_400 }),
        map { join ' ', _uuid(s => $_), _uuid(a => 1 + $_ % $accounts),
            _uuid(j => $_) } @numbers);
    my @cmd = (program('sign'), $self->_pem($key, $name), qx{nproc} + 0);
    my $file = "$self->{t}{dir}/$name.tokens";
    system("@cmd <$input >$file") == 0 or die "@cmd failed\n";
    return $file;
}

1;
