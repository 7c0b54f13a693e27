package Platform::Test;

use v5.36;

use Cwd qw(abs_path);
use File::Basename qw(basename);
use File::Find ();
use File::Temp qw(tempdir);
use feature ();
use List::Util qw(min);
use Test::More ();
use Time::HiRes qw(sleep);

use Platform::Test::Env qw(eventually readers root scale slurp);
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
readers(qw(dir));

# A test file gets strict, warnings, signatures, Test::More and a sleep of
# fractions with it.
sub import ($class, @names) {
    if (caller eq 'main') {
        $_->import for qw(strict warnings);
        Test::More->export_to_level(1, $class);
        feature->import('signatures');
    }
    return $class->export_to_level(1, $class, @names);
}

my $owner = $$;
my @instances;

# A program that ends before it has read everything does not end the test.  A handler,
# unlike IGNORE, is not inherited.
$SIG{PIPE} = sub { };

# Texts that must not be in any log.
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
        map({ $_ => {} } qw(ports vars nginx)), map({ $_ => [] } qw(running allowed)),
    }, $class;
    chmod 0755, $self->{dir};
    push @instances, $self;

    my $module = Platform::Test::Env::module();
    die "$module is missing: make all\n" if $self->{module} && !-e $module;

    my $limit = ($o{timeout} // 1800) * scale();
    my $end = sub ($signal) {
        return if $$ != $owner;
        print STDERR "# $0: SIG$signal, within $limit s\n";
        exit 1;
    };
    $SIG{$_} = $end for qw(INT TERM HUP ALRM);
    alarm $limit;
    $Platform::Test::Http::TIMEOUT = 90 * scale();
    return $self;
}

# Ports by name.
sub port ($self, $name) {
    return $self->{ports}{$name} //= Platform::Test::Port::reserve();
}

# A further %%NAME%% for configurations.
sub set ($self, %vars) {
    @{ $self->{vars} }{ keys %vars } = values %vars;
    return $self;
}

sub expand ($self, $text, $name = 'nginx') {
    my ($dir, $module) = ($self->{dir}, Platform::Test::Env::module());
    my %vars = (
        DIR     => $dir,
        ROOT    => $self->root,
        BUILD   => Platform::Test::Env::build(),
        MODULE  => $module,
        # An operator's nginx has other lines here, or none: each process of a test keeps
        # its files in the test's directory, and logs more.
        GLOBALS => join("\n", 'daemon off;', "pid $dir/$name.pid;",
            "error_log $dir/$name.error.log info;", $> == 0 ? 'user root;' : '',
            $self->{module} ? "load_module $module;" : ''),
        GLOBALS_HTTP => join("\n", "access_log $dir/$name.combined.log;",
            map {"${_}_temp_path $dir/$name/$_;"} qw(client_body proxy fastcgi uwsgi scgi)),
        # A location for the gateway's own requests.
        FETCHED => qq{internal; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_pass_request_headers off;},
        PLATFORM_LOG => q{log_format platform escape=none '$platform_access_json';}
            . "\naccess_log $dir/$name.access.log platform;",
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

sub read_file ($self, $name) { return slurp($name =~ m{^/} ? $name : "$self->{dir}/$name") }

sub nginx_conf ($self, $text, $name = undef) {
    $name //= 'nginx';
    # As a whole: an nginx that is reading the last one reads on.
    my $conf = "$self->{dir}/$name.conf";
    rename $self->write_file("$name.conf.new", $self->expand($text, $name)), $conf
        or die "$conf: $!\n";
    return $self->{nginx}{$name} //= Platform::Test::Nginx->new(dir => $self->{dir},
        name => $name, conf => $conf, prefix => "$self->{dir}/$name");
}

sub nginx ($self, $name = undef) { return $self->{nginx}{ $name // 'nginx' } }

sub start_nginx ($self, $name = undef) {
    my $nginx = $self->nginx($name) // die "no configuration yet\n";
    return $self->track($nginx)->start;
}

sub reload ($self, $name = undef) { return $self->nginx($name)->reload }

sub http_server ($self, $name, $handler, %o) {
    return $self->track(Platform::Test::Server->new(name => $name, dir => $self->{dir},
        handler => $handler, port => $self->port($name), %o));
}

sub echo_upstream ($self, $name = 'upstream') {
    return $self->http_server($name, \&Platform::Test::Server::echo);
}

sub issuer ($self, %state) {
    my $name = delete $state{name} // 'issuer';
    return $self->http_server($name, \&Platform::Test::Server::issue)->set(%state);
}

sub postgres ($self, %o) {
    my $name = delete $o{name} // 'postgres';
    return $self->{postgres}{$name} //= $self->track(
        Platform::Test::Postgres->new(dir => $self->{dir}, name => $name, %o));
}

# A primary and a synchronous standby: it has each commit before its client knows.
sub postgres_pair ($self) {
    my $primary = $self->postgres;
    my $standby = $self->postgres(name => 'standby', standby_of => $primary);
    $primary->setting("synchronous_standby_names = '*'");
    eventually(sub { $primary->sql('select sync_state from pg_stat_replication',
        user => 'postgres') eq 'sync' }) or die "the standby does not follow\n";
    return ($primary, $standby);
}

# The environment of identity-fcgi in tests, with these changes (undef removes a
# variable).
sub identity_env ($self, %change) {
    my $key = jwt_key('identity');
    my %env = (
        APP_NAME => 'identity-service', APP_ENV => 'local',
        IDENTITY_LISTEN     => "$self->{dir}/identity.sock",
        PLATFORM_JWT_ISSUER => $Platform::Test::Jwt::ISSUER,
        PLATFORM_JWT_KEY_ID => $key->kid,
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => $key->private_base64,
        PLATFORM_JWT_PUBLIC_KEY_BASE64  => $key->public_base64,
        map({ ("PLATFORM_DB_${_}_ON_START" => 'true') } qw(MIGRATE SEED)),
        # A machine may be busy, and a login's hash has less of it than the
        # rest: more time than by default, less than nginx waits for an answer.
        PLATFORM_REQUEST_TIMEOUT      => '40s',
        PLATFORM_QUEUE_TIMEOUT        => '40s',
        PLATFORM_DB_STATEMENT_TIMEOUT => '10s',
        PLATFORM_DB_CONNECT_TIMEOUT   => '6s',
        # A test may hold a row while it looks at those who wait.
        PLATFORM_DB_LOCK_TIMEOUT      => '30s',
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
    return $self->track(Platform::Test::Identity->new(
        dir => $self->{dir}, name => $name, args => $args, env => $self->identity_env(
            IDENTITY_LISTEN => "$self->{dir}/$name.sock", %change)));
}

# A program until the end of the test; options of Platform::Test::Process.
sub process ($self, $name, %o) {
    return $self->track(Platform::Test::Process->start(name => $name, dir => $self->{dir},
        log => "$self->{dir}/$name.log", %o));
}

# Runs a script of t/node to its end, which uses checks.js: each check of its is one of
# ours.  How many there were.
sub browser ($self, $script, @args) {
    my $name = 'browser-' . ++$self->{browsers};
    my $run = $self->process($name, cmd => [ Platform::Test::Env::node(), $script, @args ],
        ok_status => ['any'])->expect_end;
    Test::More::ok($run->wait_end(800), "$name: it comes to an end");
    Test::More::is($run->status, 0, "$name: and has no complaint");
    my $checks = 0;
    for my $line (split /\n/, $self->read_file("$name.log") // '') {
        if ($line =~ /^(not )?ok - (.*)/) {
            Test::More::ok(!$1, $2);
            $checks++;
        } else {
            Test::More::diag($line);
        }
    }
    return $checks;
}

# Packs the client of examples/ for npm, and installs it in the test's directory as a
# page's author would; what the examples need besides is t/node's.  What npm said, if
# it failed.
sub client_package ($self) {
    my ($root, $dir) = ($self->root, $self->{dir});
    my $said = qx{exec 2>&1; cd $dir && (umask 077 && $root/tools/client package) &&
        npm install --offline --no-audit --no-fund --cache=$dir/npm ./package/*.tgz};
    return $said || 'npm failed' if $?;
    symlink "$root/t/node/node_modules/$_", "$dir/node_modules/$_" or die "$_: $!\n"
        for qw(@types react react-dom);
    return '';
}

# A process of identity-fcgi, with these changes of the environment; via => what
# runs it, args => its own; further options of Platform::Test::Process.
sub identity_process ($self, $name, $change, %o) {
    my $dir = $self->{dir};
    return Platform::Test::Process->start(name => $name, dir => $dir,
        log => "$dir/$name.log", %o, env => { %{ $self->identity_env(%$change) },
            Platform::Test::Env::mode_env($dir, name => $name, leaks => 1) },
        cmd => [ @{ $o{via} // [] }, Platform::Test::Env::mode_prefix($dir, $name),
            Platform::Test::Env::identity(), @{ $o{args} // [] } ]);
}

# With a listening socket as descriptor 0, as a supervisor has it; one that does
# not stop by itself.
sub inherited_identity ($self, $socket, %change) {
    return $self->identity_process('inherited' . ++$self->{runs},
        { IDENTITY_LISTEN => undef, %change }, stdin => $socket);
}

# Runs identity-fcgi to its end: (exit status, stdout, stderr).  stdin => what
# its standard input holds; within => how many seconds it may take.
sub run_identity ($self, $args, %change) {
    my $stdin = delete $change{stdin};
    my $within = delete $change{within} // 600;
    my $name = 'run-' . ++$self->{runs};
    my $in = defined $stdin ? $self->write_file("$name.in", $stdin) : '/dev/null';
    my $p = $self->identity_process($name, \%change, log => "$self->{dir}/$name.out",
        via => [ 'sh', '-c', 'in=$1 err=$2; shift 2; exec "$@" <"$in" 2>"$err"', 'sh',
            $in, "$name.err" ], args => $args)->expect_end;
    $p->wait_end($within) or die "identity-fcgi @$args did not end\n";
    my $status = $p->status & 127 ? 128 + ($p->status & 127) : $p->status >> 8;
    return ($status, map { $self->read_file("$name.$_") // '' } qw(out err));
}

# Something with ->stop, stopped at the end in reverse order.
sub track ($self, $what) {
    push @{ $self->{running} }, $what unless grep { $_ == $what } @{ $self->{running} };
    return $what;
}

sub stop ($self, $what, @signal) { return $what->stop(@signal) }

# This test expects log lines that match.
sub allow ($self, @patterns) {
    push @{ $self->{allowed} }, @patterns;
    return $self;
}

# Stops everything; returns what went wrong, as lines.
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
sub bad_log_lines ($self) {
    my @bad;
    my $look = sub {
        return unless -f && /\.log(?:\.\d+)?$|\.err$/ && !/access\.log$|combined\.log$/;
        open my $fh, '<:raw', $_ or return;
        while (my $line = <$fh>) {
            next if $line !~ $BAD || grep { $line =~ $_ } @{ $self->{allowed} };
            push @bad, basename($_) . ': ' . $line =~ s/\n\z//r;
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
    return print STDERR "# kept $self->{dir}\n" if $ENV{PLATFORM_TEST_KEEP};
    system('rm', '-rf', $self->{dir});
}

END {
    if ($$ == $owner) {
        my $status = $?;
        alarm 0;
        local $SIG{$_} = 'IGNORE' for qw(INT TERM HUP);
        for my $t (@instances) {
            if (my @problems = map { split /\n/ } $t->finish) {
                print STDERR map {"# $_\n"} @problems;
                $status ||= 1;
            }
            $t->_clean($status != 0 || !Test::More->builder->is_passing);
        }
        $? = $status;
    }
}

# What $sub measures, seconds say, where other load of the machine can only
# make it more: the least of some runs, the first of them that is below $bound.
sub least ($bound, $sub) {
    my $least;
    for (1 .. 7) {
        $least = min($sub->(), $least // ());
        last if $least < $bound;
    }
    return $least;
}

# One test: the response is the problem+json with this status and code, and a
# 401 has its challenge.
sub is_problem ($res, $status, $code, $name) {
    my $json = eval { $res->json };
    my %got = ref $json eq 'HASH' ? %$json : ();
    my $said = grep { length($got{$_} // '') } qw(title detail requestId);
    my $challenged = $status != 401 || defined $res->header('WWW-Authenticate');
    my $ok = Test::More::is_deeply(
        [ (map { $res->header($_) } qw(Content-Type X-Request-Id)),
            join(', ', $res->header_all('Cache-Control')),
            $res->status, @got{qw(type status code)}, $said, $challenged ? 1 : 0 ],
        [ 'application/problem+json', $got{requestId} // '', 'no-store',
            $status, 'about:blank', $status, $code, 3, 1 ],
        "$name: $status $code");
    Test::More::diag($res->raw_head, $res->body) unless $ok;
    return $ok;
}

# Values of a header in a request as an upstream saw it.
*header_values = \&Platform::Test::Response::header_all;

1;

__END__

=head1 NAME

Platform::Test - runs real nginx, identity-fcgi and PostgreSQL for one test

=head1 SYNOPSIS

    use Platform::Test;     # and strict, warnings, signatures, Test::More

    my $t = Platform::Test->new;
    my $key = jwt_key('a');
    $t->issuer(body => jwks($key));
    $t->echo_upstream;
    $t->gateway_conf(<<'SERVER', http => 'platform_gateway_key_wait 50ms;');
    pass /branch: platform_gateway_access branch;
    SERVER
    my $port = $t->start_gateway;

    my $res = http_get($port, '/branch', token => jwt_token(branch => $key));
    is $res->status, 200, 'a request passes';
    my $seen = $res->json;      # what reached the upstream
    is_deeply [header_values($seen, 'X-Token-Scope')], ['BRANCH'], 'as whom';

    $t->done;

C<done> comes last; C<< $t->allow(qr/.../) >> excuses log lines that the test provokes.

C<nginx_conf(TEXT [, NAME])> replaces what C<expand> lists: C<%%GLOBALS%%>,
C<%%GLOBALS_HTTP%%>, C<%%PORT_x%%>, C<%%TO_x%%> and so on, and what C<set> gave; called
again, with C<reload>, it changes a running nginx.  The servers' answers are in
Platform::Test::Server, other methods in Platform::Test::Stack and ::Gateway.

The environment: PLATFORM_BUILD, the build directory (build-asan with
PLATFORM_TEST_ASAN=1, build-tsan with C<thread>); PLATFORM_TEST_VALGRIND=1;
PLATFORM_TEST_KEEP=1 keeps the directory of a test.

=cut
