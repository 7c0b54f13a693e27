package Platform::Test;

use v5.36;

use Cwd qw(abs_path);
use File::Basename qw(basename);
use File::Find ();
use File::Temp qw(tempdir);
use feature ();
use Test::More ();
use Time::HiRes qw(sleep);

use Platform::Test::Env;
use Platform::Test::Fcgi;
use Platform::Test::Gateway;
use Platform::Test::Http;
use Platform::Test::Identity;
use Platform::Test::Jwt;
use Platform::Test::Nginx;
use Platform::Test::Port;
use Platform::Test::Postgres;
use Platform::Test::Process;
use Platform::Test::Server;
use Platform::Test::Stack;

use Exporter ();
our @ISA = qw(Exporter);
our @EXPORT = (qw(eventually header_values is_problem least sleep), @Platform::Test::Http::EXPORT,
    @Platform::Test::Jwt::EXPORT);

# A test file gets strict, warnings, signatures, Test::More and a sleep of
# fractions with it.
sub import {
    my ($class) = @_;

    if (caller eq 'main') {
        strict->import;
        warnings->import;
        Test::More->export_to_level(1, $class);
        feature->import('signatures');
    }
    return $class->export_to_level(1, @_);
}

my $owner = $$;
my @instances;

# A program that ended before it had read all is no end of the test; a handler,
# unlike IGNORE, is not inherited.
$SIG{PIPE} = sub { };

# What must not stand in any log.
my $BAD = qr/
    \[(?:alert|crit|emerg)\]
  | (?:Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer
  | runtime\ error:
  | ERROR\ SUMMARY:\ [1-9]
  | \bPANIC:
  | Assertion .* failed
  | free\(\):|malloc\(\):|stack\ smashing
/x;

sub new ($class, %o) {
    my $self = bless {
        dir     => abs_path(tempdir('platform-test-XXXXXX',
            DIR => Platform::Test::Env::scratch($o{disk}))),
        module  => $o{module} // 1,
        ports   => {},
        vars    => {},
        running => [],
        allowed => [],
        nginx   => {},
    }, $class;
    chmod 0755, $self->{dir};
    push @instances, $self;

    if ($self->{module} && !-e Platform::Test::Env::module()) {
        die Platform::Test::Env::module() . " is missing: make all\n";
    }

    my $limit = ($o{timeout} // 1800) * Platform::Test::Env::scale();
    for my $signal (qw(INT TERM HUP ALRM)) {
        $SIG{$signal} = sub {
            return if $$ != $owner;
            print STDERR "# $0: SIG$signal"
                . ($signal eq 'ALRM' ? " (over $limit s)" : '') . "\n";
            exit 1;
        };
    }
    alarm $limit;
    $Platform::Test::Http::TIMEOUT = 90 * Platform::Test::Env::scale();
    return $self;
}

sub dir { return $_[0]{dir} }

sub root { return Platform::Test::Env::root() }

sub scale { return Platform::Test::Env::scale() }

# Ports by name.
sub port ($self, $name) {
    return $self->{ports}{$name} //= Platform::Test::Port::reserve();
}

# A further %%NAME%% for configurations.
sub set ($self, %vars) {
    @{ $self->{vars} }{ keys %vars } = values %vars;
    return $self;
}

sub expand ($self, $text, $name = undef) {
    $name //= 'nginx';
    my $dir = $self->{dir};
    my $prefix = "$dir/$name";
    my $load = $self->{module} ? 'load_module ' . Platform::Test::Env::module() . ';' : '';
    my %vars = (
        DIR     => $dir,
        ROOT    => $self->root,
        BUILD   => Platform::Test::Env::build(),
        MODULE  => Platform::Test::Env::module(),
        GLOBALS => join("\n", 'daemon off;', "pid $dir/$name.pid;",
            "error_log $dir/$name.error.log info;",
            ($> == 0 ? 'user root;' : ()), $load),
        GLOBALS_HTTP => join("\n", "access_log $dir/$name.combined.log;",
            ($text =~ /large_client_header_buffers/
                ? () : 'large_client_header_buffers 2 24k;'),
            map {"${_}_temp_path $prefix/$_;"} qw(client_body proxy fastcgi uwsgi scgi)),
        PLATFORM_LOG => join("\n",
            q{log_format platform escape=none '$platform_access_json';},
            "access_log $dir/$name.access.log platform;"),
        %{ $self->{vars} },
    );
    $text =~ s{%%(\w+)%%}{
        $1 =~ /^PORT_(\w+)$/ ? $self->port($1) : $1 =~ /^TO_(\w+)$/
            ? 'proxy_pass http://127.0.0.1:' . $self->port($1) . ';'
            : $vars{$1} // die "nobody gave %%$1%% a value\n"
    }ge;
    return $text;
}

# Writes a file below the test's directory; returns its path.
sub write_file ($self, $name, $content) {
    my $path = "$self->{dir}/$name";
    my $sub = $path =~ s{/[^/]*$}{}r;
    system('mkdir', '-p', $sub) if !-d $sub;
    open my $fh, '>:raw', $path or die "$path: $!\n";
    print {$fh} $content;
    close $fh or die "$path: $!\n";
    return $path;
}

sub read_file ($self, $name) {
    open my $fh, '<:raw', $name =~ m{^/} ? $name : "$self->{dir}/$name" or return undef;
    local $/;
    return <$fh>;
}

sub nginx_conf ($self, $text, $name = undef) {
    $name //= 'nginx';
    my $conf = $self->write_file("$name.conf", $self->expand($text, $name));
    return $self->{nginx}{$name} //= Platform::Test::Nginx->new(
        dir    => $self->{dir},
        name   => $name,
        conf   => $conf,
        prefix => "$self->{dir}/$name",
    );
}

sub nginx { return $_[0]{nginx}{ $_[1] // 'nginx' } }

sub start_nginx ($self, $name = undef) {
    my $nginx = $self->nginx($name) // die "no configuration yet\n";
    $self->track($nginx);
    return $nginx->start;
}

sub reload { return $_[0]->nginx($_[1])->reload }

# nginx -t of a configuration that is not kept: (passed, what it said).
sub nginx_test ($self, $text) {
    my $nginx = $self->nginx_conf($text, 'check');
    my @result = $nginx->test;
    unlink $nginx->{log};
    delete $self->{nginx}{check};
    return @result;
}

sub http_server ($self, $name, $handler, %o) {
    my $server = Platform::Test::Server->new(
        name => $name, dir => $self->{dir}, handler => $handler,
        port => $self->port($name), %o,
    );
    return $self->track($server);
}

sub echo_upstream ($self, $name = undef) {
    return $self->http_server($name // 'upstream', \&Platform::Test::Server::echo);
}

sub issuer ($self, %state) {
    my $name = delete $state{name} // 'issuer';
    return $self->http_server($name, \&Platform::Test::Server::issue)->set(%state);
}

sub postgres ($self, %o) {
    my $name = delete $o{name} // 'postgres';
    return $self->{postgres}{$name} //= $self->track(
        Platform::Test::Postgres->new(
            dir => $self->{dir}, name => $name, %o));
}

# The environment identity-fcgi gets here, changed by what is given (undef
# takes a variable away).
sub identity_env ($self, %change) {
    my $key = jwt_key('identity');
    my %env = (
        APP_NAME        => 'identity-service',
        APP_ENV         => 'local',
        IDENTITY_LISTEN => "$self->{dir}/identity.sock",
        PLATFORM_JWT_ISSUER             => $Platform::Test::Jwt::ISSUER,
        PLATFORM_JWT_KEY_ID             => $key->kid,
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => $key->private_base64,
        PLATFORM_JWT_PUBLIC_KEY_BASE64  => $key->public_base64,
        PLATFORM_DB_MIGRATE_ON_START    => 'true',
        PLATFORM_DB_SEED_ON_START       => 'true',
        # A machine may be busy, and a login's hash has less of it than the
        # rest: more time than by default, less than nginx waits for an answer.
        PLATFORM_REQUEST_TIMEOUT      => '40s',
        PLATFORM_DB_STATEMENT_TIMEOUT => '10s',
        PLATFORM_DB_CONNECT_TIMEOUT   => '6s',
        $self->{postgres}{postgres} ? $self->{postgres}{postgres}->env : (),
        %change,
    );
    delete $env{$_} for grep { !defined $env{$_} } keys %env;
    return \%env;
}

# Starts identity-fcgi on a database of its own (started if it was not).
sub identity ($self, %change) {
    my $name = delete $change{name} // 'identity';
    my $args = delete $change{args};
    $self->postgres unless exists $change{PLATFORM_DB_HOST};
    my $listen = "$self->{dir}/$name.sock";
    return $self->track(Platform::Test::Identity->new(
        dir  => $self->{dir},
        name => $name,
        env  => $self->identity_env(IDENTITY_LISTEN => $listen, %change),
        args => $args,
    ));
}

# Starts identity-fcgi with a listening socket as descriptor 0, as a supervisor
# does; a Platform::Test::Process, which does not stop by itself.
sub inherited_identity ($self, $socket, %change) {
    my $env = $self->identity_env(IDENTITY_LISTEN => undef, %change);
    my $dir = $self->{dir};
    my $name = 'inherited' . ++$self->{runs};
    return Platform::Test::Process->start(
        name => $name, dir => $dir, log => "$dir/$name.log",
        env => { %$env, Platform::Test::Env::mode_env($dir, name => $name, leaks => 1) },
        stop_wait => 15 * $self->scale,
        code => sub {
            open STDIN, '<&', $socket or die "stdin: $!\n";
            exec 'setpriv', '--pdeathsig', 'TERM', '--',
                Platform::Test::Env::mode_prefix($dir, $name),
                Platform::Test::Env::identity();
        });
}

# Runs identity-fcgi to its end: (exit status, stdout, stderr).  stdin => what
# its standard input holds; within => how many seconds it may take.
sub run_identity {
    my ($self, $args, %change) = @_;

    my $stdin = delete $change{stdin};
    my $within = delete $change{within} // 600;
    my $env = $self->identity_env(%change);
    my $name = 'run-' . ++$self->{runs};
    my ($out, $err) = map {"$self->{dir}/$name.$_"} qw(out err);
    my $in = defined $stdin ? $self->write_file("$name.in", $stdin) : '/dev/null';
    my $p = Platform::Test::Process->start(
        name => $name, dir => $self->{dir}, log => $out, env => {
            %$env, Platform::Test::Env::mode_env($self->{dir}, name => $name, leaks => 1) },
        cmd => [ 'sh', '-c',
            'in=$1 err=$2; shift 2; exec "$@" <"$in" 2>"$err"', 'sh', $in, $err,
            Platform::Test::Env::mode_prefix($self->{dir}, $name),
            Platform::Test::Env::identity(), @$args ],
    )->expect_end;
    $p->wait_end($within * $self->scale) or die "identity-fcgi @$args did not end\n";
    my $status = $p->status & 127 ? 128 + ($p->status & 127) : $p->status >> 8;
    return ($status, map { $self->read_file("$name.$_") // '' } qw(out err));
}

# Something with ->stop, stopped at the end in reverse order.
sub track ($self, $what) {
    push @{ $self->{running} }, $what unless grep { $_ == $what } @{ $self->{running} };
    return $what;
}

sub stop { my ($self, $what, @signal) = @_; return $what->stop(@signal) }

# Log lines that match are meant by this test.
sub allow ($self, @patterns) {
    push @{ $self->{allowed} }, @patterns;
    return $self;
}

# Stops everything and looks for what went wrong; a list of lines.
sub finish ($self) {
    return () if $self->{finished};
    $self->{finished} = 1;

    my @problems;
    while (my $what = pop @{ $self->{running} }) {
        push @problems, eval { $what->stop };
        push @problems, "stop: $@" if $@;
    }
    for my $pid (Platform::Test::Process::in_dir($self->{dir})) {
        push @problems, "left running: $pid " . Platform::Test::Process::command_of($pid);
        kill 'KILL', $pid;
    }
    push @problems, $self->bad_log_lines;
    return @problems;
}

# Lines of all logs that should not be there.
sub bad_log_lines {
    my ($self) = @_;

    my @bad;
    my $look = sub {
        return unless -f && /\.log(?:\.\d+)?$|\.err$/;
        return if /access\.log$|combined\.log$/;
        open my $fh, '<:raw', $_ or return;
        while (my $line = <$fh>) {
            next unless $line =~ $BAD;
            next if grep { $line =~ $_ } @{ $self->{allowed} };
            chomp $line;
            push @bad, basename($_) . ": $line";
            last if @bad > 50;
        }
    };
    File::Find::find({ wanted => $look, no_chdir => 1,
        preprocess => sub { grep { $_ ne 'data' } @_ } }, $self->{dir});
    return @bad;
}

# The last line of every test file.
sub done ($self) {
    my @problems = $self->finish;
    Test::More::ok(!@problems, 'everything stopped, nothing bad in a log')
        or Test::More::diag(join "\n", @problems);
    Test::More::done_testing();
}

sub _clean ($self, $failed) {
    my $kept = Platform::Test::Env::build() . '/test-failed/' . basename($0);
    system('rm', '-rf', $kept);
    if ($failed) {
        system('mkdir', '-p', $kept);
        system(qq(cd $self->{dir} && find . -type f ! -path '*/data/*' )
            . qq(-size -4096k -exec cp --parents {} "$kept" \\;));
        print STDERR "# logs are in $kept\n";
    }
    if ($ENV{PLATFORM_TEST_KEEP}) {
        print STDERR "# kept $self->{dir}\n";
    }
    else {
        system('rm', '-rf', $self->{dir});
    }
}

END {
    if ($$ == $owner) {
        my $status = $?;
        alarm 0;
        local $SIG{$_} = 'IGNORE' for qw(INT TERM HUP);
        for my $t (@instances) {
            my @problems = $t->finish;
            if (@problems) {
                print STDERR map {"# $_\n"} map { split /\n/ } @problems;
                $status ||= 1;
            }
            $t->_clean($status != 0 || !Test::More->builder->is_passing);
        }
        $? = $status;
    }
}

# Calls $sub until it is true, at most $seconds; returns its last value.  How
# long a busy machine takes is no finding: a limit is for what ends.
sub eventually ($sub, $seconds = undef) {
    my $until = Time::HiRes::time() + ($seconds // 60) * Platform::Test::Env::scale();
    my $pause = 0.001;
    while (1) {
        my $value = $sub->();
        return $value if $value || Time::HiRes::time() > $until;
        Time::HiRes::sleep($pause);
        $pause *= 1.5 if $pause < 0.02;
    }
}

# What $sub measures, seconds say, where other load of the machine can only
# make it more: the least of some runs, the first of them that is below $bound.
sub least ($bound, $sub) {
    my $least;
    for (1 .. 7) {
        my $got = $sub->();
        $least = $got if !defined $least || $got < $least;
        last if $least < $bound;
    }
    return $least;
}

# One test: the response is the problem+json with this status and code, and a
# 401 has its challenge.
sub is_problem ($res, $status, $code, $name) {
    my $json = eval { $res->json };
    my %got = ref $json eq 'HASH' ? %$json : ();
    my $id = $got{requestId} // '';
    my @texts = map { length($got{$_} // '') ? 1 : 0 } qw(title detail);
    my $challenged = $status != 401 || scalar $res->header_all('WWW-Authenticate') > 0;
    my $ok = Test::More::is_deeply(
        [ $res->status, $res->header('Content-Type'),
            join(', ', $res->header_all('Cache-Control')),
            @got{qw(type status code)}, @texts, length $id ? 1 : 0,
            $res->header('X-Request-Id'), $challenged ? 1 : 0 ],
        [ $status, 'application/problem+json', 'no-store', 'about:blank',
            $status, $code, 1, 1, 1, $id, 1 ],
        "$name: $status $code");
    Test::More::diag($res->raw_head, $res->body) unless $ok;
    return $ok;
}

# Values of a header in a request as an upstream saw it.
sub header_values ($request, $name) {
    return Platform::Test::Server::header_all($request, $name);
}

1;

__END__

=head1 NAME

Platform::Test - runs real nginx, identity-fcgi and PostgreSQL for one test

=head1 SYNOPSIS

    use Platform::Test;     # and strict, warnings, signatures, Test::More

    my $t = Platform::Test->new;
    my $key = jwt_key('a');
    my $issuer = $t->issuer(body => jwks($key));
    my $upstream = $t->echo_upstream;

    $t->nginx_conf(<<'CONF');
    %%GLOBALS%%
    events { }
    http {
        %%GLOBALS_HTTP%%
        %%PLATFORM_LOG%%
        server {
            listen 127.0.0.1:%%PORT_gateway%%;
            location / { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
        }
    }
    CONF
    $t->start_nginx;

    my $res = http_get($t->port('gateway'), '/x', token => 'abc');
    is $res->status, 200, 'a request passes';
    my $seen = $res->json;      # what reached the upstream
    is_deeply [header_values($seen, 'X-Roles')], [], 'no roles';

    $t->done;

=head1 RULES

One feature a file, flat, a positive control beside each rejection, every
wait bounded (C<eventually>), no fixed port, nothing outside the test's own
directory.  C<< $t->done >> comes last: it stops everything in reverse order,
fails on C<[alert]>, C<[crit]>, C<[emerg]>, sanitizer or valgrind text in any
log, on a process that died or outlived its stop, and ends the plan.  END does
the stopping also after die and signals; a killed test takes its daemons along.
C<< $t->allow(qr/.../) >> excuses log lines that the test provokes.

=head1 METHODS

=over

=item new(module => 1, timeout => 1800)

module => 0 for nginx without the gateway module; timeout in seconds for all.

=item dir, root, port(NAME), set(NAME => VALUE), write_file(NAME, TEXT), read_file(NAME)

The private directory, the source tree, a reserved port by name (the same as
C<%%PORT_NAME%%>), a further C<%%NAME%%>, files below the directory; read_file
takes a whole path, too.

=item nginx_conf(TEXT [, NAME]), start_nginx([NAME]), nginx([NAME]), reload([NAME]), nginx_test(TEXT)

TEXT may hold C<%%GLOBALS%%> (daemon, pid, error_log, user, load_module),
C<%%GLOBALS_HTTP%%> (temporary paths, a plain access log, and header buffers
that hold a token, unless TEXT sets them itself),
C<%%PLATFORM_LOG%%> (the JSON access log), C<%%PORT_x%%>, C<%%TO_x%%> (the
C<proxy_pass> to that port), C<%%DIR%%>,
C<%%ROOT%%>, C<%%BUILD%%>, C<%%MODULE%%>.  Write C<worker_processes> yourself.
C<nginx_conf> again and C<reload> change a running one.  C<nginx_test> returns
(passed, output) of C<nginx -t>.  An nginx object has pid, workers,
signal(NAME), stop([SIGNAL]), start, error_log, access_log, access_lines([N]),
wait_log(qr//, [SECONDS]).

=item gateway_conf(SERVER, http => TEXT, main => TEXT), start_gateway, gateway_ready, logged(RES)

C<nginx_conf> of one gateway: SERVER is what its server on port "gateway" holds
beside the key set (of C<issuer>) and C</ready>; http is for C<http{}>, further
servers included, and takes the place of the issuer C<http://issuer.test> where
it names others; main is for what stands above.  C<%%GLOBALS%%>,
C<%%GLOBALS_HTTP%%> and C<%%PLATFORM_LOG%%> are there; all other C<%%NAME%%>
may be used:

    $t->issuer(body => jwks($key));
    $t->gateway_conf(<<'SERVER', http => 'platform_gateway_key_wait 50ms;');
    location /branch {
        platform_gateway_access branch;
        proxy_pass http://127.0.0.1:%%PORT_upstream%%;
    }
    SERVER
    my $port = $t->start_gateway;

C<start_gateway> is C<start_nginx> and C<gateway_ready>, one test that there is
a key set.  C<logged> is the line of the access log for a response, decoded;
C<{}> where none comes.

=item location_test(http => TEXT, server => TEXT, location => TEXT)

C<nginx_test> of those lines around and in a C<location /here>.

=item echo_upstream([NAME]) (port NAME, default "upstream")

Answers every request with JSON C<{method, uri, version, headers: [[name,
value], ...], body}>, exactly what arrived; C<?status=N> and C<?delay=S> in the
URI do so.  Object: port, requests, count, forget, down, up.

=item echo_fastcgi([NAME]), echo_scgi([NAME]), echo_uwsgi([NAME]), echo_protocols

The same for those protocols: JSON C<{params: [[name, value], ...], body}>.
C<echo_protocols> starts the three and makes C<%%ECHO_LOCATIONS%%> the locations
C</fastcgi>, C</scgi> and C</uwsgi> that pass to them.

=item issuer(body => ..., status, headers => [n => v], delay, truncate, raw, hangup) (port "issuer")

An HTTP server whose C<set(...)> changes the answer at any time: truncate sends
that many bytes of an announced body, raw sends exact bytes, delay is seconds,
hangup closes.  C<down> and C<up> refuse and accept connections again.
C<requests> and C<count> tell what was fetched, C<quiet(SECONDS)> waits until the
last fetch is so old.  set keeps what it is not told.

=item http_server(NAME, sub { my ($request, $server) = @_; ... })

Gives C<[status, [n => v, ...], body]>, C<\"exact bytes"> or undef (close).
C<< protocol => sub { my ($socket, $server) = @_; ... } >> speaks for itself:
C<read_head> (socket) reads and notes a head, C<note(HASH)> makes a request that
C<requests> tells.

=item postgres(empty => 0, durable => 0, settings => {...}, port => N, name => 'postgres')

A private cluster, whose database is migrated and seeded unless it is to be
empty; sql(TEXT), stop('INT'|'QUIT'|'KILL'), start, freeze('STOP' |
'CONT'), env, host; standby_of => another makes its standby, promote ends that.

=item identity(NAME => VALUE, ...), identity_env(...), run_identity([ARGS], ...)

identity-fcgi with a private environment (local, seeded, key jwt_key('identity'),
issuer $Platform::Test::Jwt::ISSUER), listening when it returns; undef takes a
variable away; name => 'two' for a second one; args => [...] for its command
line.  Object: address, nginx_address,
pid, stop([SIGNAL]), start, log_text, log_lines.  run_identity waits for its end
and returns (status, stdout, stderr).

=item identity_face(%env)

PostgreSQL, identity-fcgi and an nginx with the identity face on port
"identity"; returns the Identity object.  For id_*.t.

=item start_face(ADDRESS, http => TEXT, listen => TEXT, name => 'nginx')

The nginx of that face alone, before an identity process (its nginx_address) or
whatever listens there; returns the port.  http and listen add to C<http{}> and
to the C<listen> line.

=item inherited_identity(SOCKET, NAME => VALUE, ...)

identity-fcgi with a listening socket as descriptor 0, as a supervisor starts
it; a Platform::Test::Process that the caller stops (or C<track>s).

=item full_stack(%o)

Everything through the templates of nginx.conf.d as C<make run> would have it;
see Platform::Test::Stack.

=item fcgi(ADDRESS)

A raw FastCGI client; see Platform::Test::Fcgi.

=back

=head1 FUNCTIONS

C<http(PORT, METHOD, PATH, headers =E<gt> [n =E<gt> v], body, json, token,
cookie, host, version)>, C<http_get>, C<http_post>: one request on its own
connection, a Platform::Test::Response (status, header, header_all, headers,
body, json, code, cookie, cookie_line, truncated, interim).
C<http_raw(PORT, BYTES)>: all bytes until close.  C<http_parallel([[PORT,
BYTES], ...])> with C<http_request_bytes>: all at once.
C<Platform::Test::Http-E<gt>new(port =E<gt> N)>: one connection: send,
read_response, request, read_all, closed, reset, close.

C<jwt_key(NAME, bits =E<gt> 2048, kid =E<gt> ...)>, C<jwks(KEYS)>,
C<jwt_token(account|branch|system|refresh, KEY, claim =E<gt> value)>,
C<jwt_claims>, C<jwt_sign(header, payload, key | secret)>, C<jwt_tamper(TOKEN,
PART, BIT)>, C<jwt_decode>, C<b64url>, C<b64url_decode>, C<uuid([N])>.

C<eventually(sub, SECONDS)>, C<least(BOUND, sub)>: the least that sub returns in
some runs, of which one below BOUND is the last; C<header_values(REQUEST, NAME)>, C<is_problem(RES,
STATUS, CODE, NAME)>: one test that the answer is that problem+json, whole.

=head1 ENVIRONMENT

PLATFORM_BUILD: the build directory (build, or build-asan with
PLATFORM_TEST_ASAN=1).  PLATFORM_TEST_VALGRIND=1: identity-fcgi and nginx run
under valgrind.  PLATFORM_TEST_KEEP=1 keeps the directory of a test.

=cut
