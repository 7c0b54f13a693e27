package Platform::Test::Env;

# Where things are: the tree, the build directory, programs, modes; and what all
# modules need.

use v5.36;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP ();
use List::Util qw(first);
use Test2::API ();
use Test::More ();
use Time::HiRes ();

use Exporter qw(import);
our @EXPORT_OK = qw(eventually json put readers root scale slurp);

# A make that a test starts must not take itself for a part of `make check`: it would
# print the directories that it enters.  nginx takes NGINX for sockets that it inherits.
my %given = (NGINX => $ENV{NGINX});
delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS NGINX)};

my $root = abs_path(dirname(__FILE__) . '/../../../..');
my %config;

# Reads and writes the JSON of servers and logs: by Cpanel::JSON::XS if it is there, which
# takes a fiftieth of JSON::PP's time.
my $JSON = eval { require Cpanel::JSON::XS } ? 'Cpanel::JSON::XS' : 'JSON::PP';

sub json {
    my $json = $JSON->new->allow_nonref->canonical;
    return $JSON eq 'JSON::PP' ? $json : $json->allow_dupkeys;
}

sub root { return $root }

sub asan { return $ENV{PLATFORM_TEST_ASAN} }

sub valgrind { return !!$ENV{PLATFORM_TEST_VALGRIND} }

# Skips the test, for that reason, unless this is a plain build: no sanitizer, no
# counters of lines.
sub plain ($why) {
    Test::More::plan(skip_all => $why) if asan() || valgrind() || build() =~ m{-coverage\z};
}

# With this in the environment a file ends with the first test that fails.
Test2::API::test2_add_callback_context_release(sub ($c) { exit 1 if !$c->hub->is_passing })
    if $ENV{PLATFORM_TEST_FIRST};

# How many times slower everything is in the mode at hand.
sub scale { return valgrind() ? 15 : asan() ? 3 : 1 }

# The directory of build outputs, absolute.
sub build {
    my $dir = $ENV{PLATFORM_BUILD} // (asan() ? 'build-asan' : 'build');
    return $dir =~ m{^/} ? $dir : "$root/$dir";
}

sub module { return build() . '/ngx_http_platform_gateway_module.so' }

sub identity { return build() . '/identity-fcgi/identity-fcgi' }

# Where a test makes its directory: in memory if there is much room and programs can
# run from there, since clusters are many files; else in TMPDIR.  A benchmark uses a
# disk, since memory is never synced.
sub scratch ($disk) {
    my $shm = '/dev/shm';
    return $ENV{TMPDIR} // '/tmp' if $disk || $ENV{TMPDIR} || !-w $shm;
    my ($options) = (slurp('/proc/mounts') // '') =~ m{^\S+ $shm \S+ (\S+)}m;
    my (undef, $free) = split ' ', `df --output=avail -B1M $shm`;
    return ($options // 'noexec') !~ /noexec/ && $free > 4096 ? $shm : '/tmp';
}

# A directory for what is made once: test keys, the empty cluster.
sub cache_dir {
    my $dir = build() . '/test-cache';
    mkdir $_ for build(), $dir;
    return -d $dir ? $dir : die "$dir: $!\n";
}

# A value of build/config.mk (the usual build directory's where this one has
# none), or of the environment.
sub config ($name) {
    %config = (slurp(build() . '/config.mk') // slurp("$root/build/config.mk") // '')
        =~ /^(\w+)\s*[:?]?=[ \t]*(.*?)[ \t]*$/mg if !%config;
    return $given{$name} // $ENV{$name} // $config{$name};
}

sub nginx { return config('NGINX') || find('nginx') || die "nginx not found\n" }

# A dynamic module that came with nginx, or an empty string.
sub nginx_module ($name) {
    my $file = config('NGINX_MODULES_DIR') . "/$name.so";
    return -e $file ? $file : '';
}

# A program of the PostgreSQL server or client.
sub postgres ($program) {
    my ($newest) = sort { ($b =~ /(\d+)/)[0] <=> ($a =~ /(\d+)/)[0] }
        glob '/usr/lib/postgresql/*/bin';
    my $path = first { -x } map {"$_/$program"}
        grep {$_} config('PG_BINDIR'), config('PG_BIN'), $newest;
    return $path // find($program) // die "PostgreSQL's $program not found\n";
}

sub find ($program) {
    return first { -x } map {"$_/$program"} split(/:/, $ENV{PATH} // ''), '/usr/sbin', '/sbin';
}

# Skips the test where something that it needs is missing; fails it where nothing may
# be missing (CI=true).
sub needs ($what) {
    my $needs = "needs $what: ./configure.sh --install-test-deps";
    die "$needs\n" if ($ENV{CI} // '') eq 'true';
    Test::More::plan(skip_all => $needs);
}

# node, with the packages of t/node.
sub node {
    my $node = find('node');
    return $node if $node && (`$node --version` =~ /^v(\d+)/)[0] >= 18
        && -e "$root/t/node/node_modules/.package-lock.json";
    needs('node 18 or newer and t/node/node_modules');
}

sub chromium { return find('chromium') // needs('chromium') }

# Who daemons that refuse root run as; undef where we are not root.
sub unprivileged {
    return undef if $> != 0;
    my ($user) = grep { defined getpwnam $_ } qw(postgres nobody);
    return $user // die "neither user postgres nor nobody\n";
}

# The environment that turns the mode on for one program.
sub mode_env ($dir, %o) {
    return () unless asan();
    chomp(my $libasan = `gcc -print-file-name=libasan.so`);
    my $log = "log_path=$dir/sanitizer.$o{name}.log";
    return (
        ASAN_OPTIONS  => "detect_leaks=@{[ $o{leaks} // 0 ]}:$log:handle_segv=1",
        UBSAN_OPTIONS => "print_stacktrace=1:$log",
        TSAN_OPTIONS  => "halt_on_error=1:suppressions=$root/t/tsan.supp:$log",
        ($o{preload} && asan() ne 'thread' ? (LD_PRELOAD => $libasan) : ()),
    );
}

# The command prefix that turns the mode on.
sub mode_prefix ($dir, $name) {
    return () unless valgrind();
    return ('valgrind', '--error-exitcode=99', '--fair-sched=yes', '--leak-check=full',
        '--errors-for-leak-kinds=definite', '--show-leak-kinds=definite',
        '--num-callers=30', "--suppressions=$root/t/valgrind.supp",
        '--gen-suppressions=all', '--child-silent-after-fork=no',
        "--log-file=$dir/valgrind.$name.%p.log");
}

# Calls $sub until it is true, at most $seconds; returns its last value.  The default
# is long, since a busy machine is slow; it only ends a wait for what never comes.
sub eventually ($sub, $seconds = undef) {
    my $until = Time::HiRes::time() + ($seconds // 60) * scale();
    my $pause = 0.001;
    while (1) {
        my $value = $sub->();
        return $value if $value || Time::HiRes::time() > $until;
        Time::HiRes::sleep($pause);
        $pause *= 1.5 if $pause < 0.02;
    }
}

# The bytes of a file; undef where there is none.
sub slurp ($file) {
    open my $fh, '<:raw', $file or return undef;
    local $/;
    return <$fh> // '';
}

# Makes a file as a whole: no reader sees half of it.
sub put ($file, $bytes) {
    open my $fh, '>:raw', "$file.new" or die "$file.new: $!\n";
    print {$fh} $bytes;
    close $fh or die "$file.new: $!\n";
    rename "$file.new", $file or die "$file: $!\n";
}

# Methods of the caller's class that give the members of these names.
sub readers (@names) {
    my $class = caller;
    for my $name (@names) {
        no strict 'refs';
        *{"${class}::$name"} = sub ($self) { return $self->{$name} };
    }
}

1;
