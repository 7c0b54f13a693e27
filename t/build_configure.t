# configure.sh: an nginx that the module is not for is refused in one sentence;
# what only tests or make run need is missed by those alone.

use File::Basename qw(dirname);
use Platform::Test;

my $t = Platform::Test->new(module => 0);
my $nginx = Platform::Test::Env::nginx();
my $config = $t->root . '/build/config.mk';
my $before = (stat $config)[9];

sub script ($name, $text) {
    my $path = $t->write_file($name, "#!/bin/sh\n$text\n");
    chmod 0755, $path;
    return $path;
}

# The programs that only tests need are asked for their versions once, where a machine
# lacks nothing: each takes long to start.
my $quick = $t->dir . '/quick';
script("quick/$_", 'echo "$0 1.0"') for qw(caddy chromium clang clang-format clang-tidy
    cppcheck curl dh etcd go haproxy jq node npm patroni prometheus prove shellcheck valgrind);
script('quick/perl', 'case $1 in -M*) echo 1.0 ;; *) exec ' . $^X . ' "$@" ;; esac');

# What configure.sh says of the nginx that it has, were it of that version.
# The sources are those of the real one, so nothing is ever configured.
sub configure ($version) {
    my $fake = script('nginx', <<"SH");
[ "\$1" != -v ] || { echo 'nginx version: nginx/$version' >&2; exit; }
exec $nginx "\$@"
SH
    my $said = qx{PATH=$quick:\$PATH @{[ $t->root ]}/configure.sh --with-nginx=$fake 2>&1};
    isnt $?, 0, "$version: not what the sources are of";
    return $said;
}

like configure($_), qr/^ +nginx +UNUSABLE: .* is \Q$_\E, but 1\.22 or/m, "$_: too old"
    for '1.9.15', '1.21.6';
like configure($_), qr/^ +nginx +\Q$_\E \(/m, "$_: not too old"
    for '1.22.0', '1.100.0', '2.0.0';
is((stat $config)[9], $before, 'the configuration in use is as it was');

# A checkout of nothing but what is asked here, on a machine that lacks a library.
my $copy = $t->dir . '/copy';
system("mkdir -p $copy/bin $copy/tools && cd @{[ $t->root ]} &&"
    . " cp configure.sh Makefile $copy && cp tools/run $copy/tools") == 0
    or die "cannot copy\n";
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL BUILD)};

sub said ($command, $path = "$copy/bin:$quick") {
    return scalar qx{cd $copy && PATH=$path:\$PATH $command 2>&1};
}

sub configure_without ($library) {
    my ($real) = grep { -x } map {"$_/pkg-config"} split /:/, $ENV{PATH};
    script('copy/bin/pkg-config', <<"SH");
for last; do :; done
[ "\$last" != '$library' ] || exit 1
exec $real "\$@"
SH
    unlink "$copy/build/config.mk";
    my ($sources) = $t->read_file($config) =~ /^NGINX_SRC := (\S+)/m;
    return said("./configure.sh --verbose --with-nginx=$nginx --with-nginx-src=$sources");
}

like configure_without('yajl'), qr/^Missing\ Debian\ packages:\ libyajl-dev
    \nRun\ \.\/configure\.sh\ --install-deps\ /mx, 'no yajl: nothing is built';
ok !-e "$copy/build/config.mk", 'and nothing written';

like configure_without('check'), qr/^ +Check +not found \(Debian package check\)/m,
    'no Check: that is said';
my $built = $t->read_file('copy/build/config.mk') // '';
like $built, qr/^YAJL_LIBS := -lyajl/m, 'and all is there for the build';
like $built, qr{^PG_BINDIR := /}m, 'and for make run';
for my $target (qw(check unit t asan)) {
    like said("make $target"), qr{\AMakefile:\d+:\ \*\*\*\ make\ $target\ needs
        \ the\ Debian\ packages\ check:\ run\ \./configure\.sh
        \ --install-test-deps\.\ \ Stop\.\n\z}x,
        "make $target says what to run";
}
configure_without('');
my $plain = said("./configure.sh --with-nginx=$nginx --with-nginx-src="
    . Platform::Test::Env::config('NGINX_SRC'), "$copy/bin");
unlike $plain, qr/not found/, 'a machine that builds and runs lacks nothing';
unlike said('make -n unit'), qr/install-test-deps/, 'which it does not where it is';

# What somebody names is not skipped.  Only root is told of a program that root runs.
system("cp @{[ $t->root ]}/tools/* $copy/tools") == 0 or die "cannot copy\n";
mkdir "$copy/few" or die "$copy/few: $!\n";
for my $name (qw(cat dirname env id make sed sh)) {
    my ($real) = grep { -x } map {"$_/$name"} split /:/, $ENV{PATH};
    symlink $real, "$copy/few/$name" or die "$name: $!\n";
}
for my $case (
    [ fleet => 'fleet', 1, 'etcd patroni pgbouncer haproxy ip' ],
    [ soak => 'fleet', 1, 'etcd patroni pgbouncer haproxy ip' ],
    [ lint => 'test', 0, 'cppcheck clang-tidy gcc' ],
    [ matrix => 'test', 0, 'cc curl git openssl prove node chromium' ],
    [ image => 'release', 0, 'umoci' ],
    [ 'check-image' => 'release', 1, 'umoci podman podman-compose wrk' ],
    [ release => 'release', 0, 'git minisign' ],
    [ 'check-release' => 'release', 0, 'reprotest disorderfs faketime' ],
    map { [ $_ => 'release', 1, 'debootstrap' ] } qw(arm64 check-deb check-upgrades),
) {
    my ($target, $stage, $root, $programs) = @$case;
    my $needs = $root && $> != 0 ? "root: run sudo make $target"
        : "$programs: run ./configure.sh --install-$stage-deps";
    my $said = said("sh -c 'PATH=$copy/few; make $target; echo status \$?'");
    like $said, qr/^make \Q$target needs $needs\E\n(?:.*\n)*status 2$/m,
        "make $target: what to install";
}
symlink '/bin/true', "$copy/few/umoci" or die "umoci: $!\n";
is said("sh -c 'PATH=$copy/few; tools/needs image; echo status \$?'"), "status 0\n",
    'which it does not where it is';

# PostgreSQL is for make run, where no other database is given.
my $here = qr/^run: .*identity-fcgi is missing: run/;
like said('tools/run'), $here, 'make run takes the PostgreSQL found';
system "sed -i 's/^PG_BINDIR := .*/PG_BINDIR := /' $copy/build/config.mk";
like said('tools/run'), qr/^run: no PostgreSQL .* run \.\/configure\.sh --install-deps,/,
    'where there is none, it says what to run';
like said('PLATFORM_DB_HOST=db.test tools/run'), $here, 'or takes what is elsewhere';

# nginx-dev, where it is not installed: the files of that one package, and of the
# version that fits the nginx installed.
my $sources = Platform::Test::Env::config('NGINX_SRC');
my $postgres = dirname(Platform::Test::Env::postgres('postgres'));
my %fake = (
    'id' => 'echo 1000',
    'sudo' => "case \$1 in env) exec \"\$@\" ;;
        systemctl) echo \"\$*\" >>$copy/systemctl.log ;; esac",
    'systemctl' => 'exit 1',    # no unit is there
    'npm' => "cat $copy/npm; exit \$(cat $copy/npm-status)",
    'pkg-config' => 'exit 0',
    'apt-cache' => <<'SH',
case $* in
*=1-3 | *python3-jose) exit 100 ;;
'depends postgresql') printf 'postgresql\n  Depends: postgresql-15\n' ;;
*\ postgresql-15) echo 'Depends: locales | all, libllvm14, libicu72 (>= 72), libxml2' ;;
esac
SH
    'dpkg-query' => "cat $copy/installed",
    'apt-get' => <<"SH",
echo "\$*" >>$copy/apt.log
for last; do :; done
case \$* in *download*) [ "\$last" != nginx-dev=1-4 ] && echo >some.deb ;; esac
SH
    'dpkg-deb' => "mkdir -p \$3/usr/share/nginx \$3/usr/lib/postgresql/15/lib
        ln -s $sources \$3/usr/share/nginx/src
        ln -s $postgres \$3/usr/lib/postgresql/15/bin
        echo >\$3/usr/lib/postgresql/15/lib/llvmjit.so",
);
script("copy/bin/$_", $fake{$_}) for keys %fake;
system "sed -i 's|:-/usr/share|:-$copy/none|' $copy/configure.sh";
for (
    [ '1-1', '', qr/MISSING: .* nginx-dev$/m, 'nothing is fetched unasked' ],
    [ '1-1', '--install-deps', qr{\($copy/build/nginx-dev/}, 'fetched', 1 ],
    [ '1-1', '--install-deps', qr{\($copy/build/nginx-dev/}, 'once' ],
    [ '1-2', '', qr/MISSING: .* nginx-dev$/m, 'not for an nginx of another version' ],
    [ '1-2', '--install-deps', qr{\($copy/build/nginx-dev/}, 'which fetches its own', 1 ],
    [ '1-3', '--install-deps', qr/^configure\.sh: no nginx-dev .* \(1-3\)/m, 'or says there is none' ],
    [ '1-4', '--install-deps', qr/^configure\.sh: nginx-dev=1-4 could not be fetched/m,
        'or that it cannot be had', 1 ],
) {
    my ($version, $option, $like, $name, $fetched) = @$_;
    $t->write_file('copy/installed', $version);
    $t->write_file('copy/apt.log', '');
    like said("./configure.sh --with-nginx=$nginx $option"), $like, $name;
    my $asked = $t->read_file('copy/apt.log');
    $fetched
        ? like $asked, qr/ install .*libpcre2-dev zlib1g-dev.*\n.* download nginx-dev=$version$/,
        'by apt'
        : unlike $asked, qr/nginx-dev/, 'without apt';
}

# PostgreSQL's too, with the libraries that its programs need.  The tests need its package.
system "cd $copy; cp configure.sh whole.sh; sed -i 's#/usr/lib/postgresql/\\*/bin |#none |#; s#-v postgres #-v none #;
    s#dist-packages/jose#none#' configure.sh";
$t->write_file('copy/installed', '1-1');
for (
    [ '--install-deps', qr{\($copy/build/postgresql/usr/lib/postgresql/15/bin\)},
        qr/ install (?!.*postgres)(?!.*llvm).*libicu72 libxml2\n.*\n.* download \S+15 \S+client-15$/ ],
    [ '', qr{\($copy/build/postgresql/}, qr/\A\z/ ],
    [ '--install-test-deps', qr/no package python3-jose here: its tests are skipped/,
        qr/ install (?!.*python3-jose).*\bpostgresql$/m ],
) {
    my ($option, $like, $apt) = @$_;
    $t->write_file('copy/apt.log', '');
    like said("./configure.sh --with-nginx=$nginx $option"), $like, "PostgreSQL, $option";
    like $t->read_file('copy/apt.log'), $apt, 'by apt';
}
ok !-e "$copy/build/postgresql/usr/lib/postgresql/15/lib/llvmjit.so", 'without LLVM';
system "cd $copy; mv whole.sh configure.sh; rm -r systemctl.log build/postgresql";

# What npm is to install ends the stage where it fails.
system("mkdir -p $copy/t/node") == 0 or die "mkdir: $!\n";
$t->write_file('copy/installed', '1-1');
for my $case ([ 0, qr/\nWrote build/ ], [ 7, qr/\nconfigure\.sh: npm ci failed in t.node[^\n]*\n\z/ ]) {
    $t->write_file('copy/npm', "npm said\n");
    $t->write_file('copy/npm-status', $case->[0]);
    like said("./configure.sh --with-nginx=$nginx --install-test-deps"), $case->[1],
        "npm ci ends with $case->[0]";
    is $? != 0, $case->[0] != 0, '... and so does configure.sh';
}
$t->write_file('copy/npm-status', 0);

# Services that it installs do not run; those of others do.
ok !-e "$copy/systemctl.log", 'no service that it did not install is stopped';
system "sed -i 's/ pgbouncer pgbouncer/ none-such pgbouncer/' $copy/configure.sh";
said("./configure.sh --with-nginx=$nginx --install-test-deps");
is $t->read_file('copy/systemctl.log'),
    "systemctl disable --now pgbouncer.service\n", 'and the one that it did';

$t->done;
