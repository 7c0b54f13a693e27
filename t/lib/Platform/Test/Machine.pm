package Platform::Test::Machine;

# Fresh Debians as root makes them: trees to build packages in, and machines with
# systemd as process 1 and a network of their own.  What pages cannot know is made
# here: names, certificates, load.

use v5.36;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use POSIX qw(_exit WNOHANG);
use Test::More;
use Time::HiRes qw(sleep);

use Platform::Test::Env qw(put slurp);
use Platform::Test::Page qw(commands);

use Exporter qw(import);
our @EXPORT = qw($root $work $dir $init $login @base @build apart boot build_tree certificates
    download end_machine machine page remove run there tree under_load unpack_tree works);

our $root = abs_path(dirname(__FILE__) . '/../../../..');
our $work = $ENV{CHECK_DEB_DIR} // "/var/tmp/platform-check-deb";
our ($dir, $init);    # of the machine at work: its tree, its process 1
my @mirror = $ENV{DEBIAN_MIRROR} // ();    # else debootstrap's own

# All that is mounted and started from here on is so for this run alone.
sub apart {
    system("$root/tools/needs", 'check-deb') == 0 or exit 1;
    exec "$root/t/deb/apart", $^X, $0, @ARGV if !$ENV{CHECK_DEB_APART}++;
    make_path($work);
}

# Never through a mount.
sub remove {
    system("$root/t/deb/apart", '--remove', @_) == 0
        or die "check-deb: $_[0] is not removed\n";
}

sub noted ($text) {
    open my $fh, '>>', "$dir.log" or die "$dir.log: $!\n";
    print {$fh} "\n== $text\n";
}

sub run ($what, @command) {
    noted($what);
    my $status = system('sh', '-c', 'exec "$@" >>"$0" 2>&1 </dev/null', "$dir.log", @command);
    ok $status == 0, $what or diag(qx{tail -n 15 $dir.log});
    return $status == 0;
}

# -- a fresh Debian --------------------------------------------------------------

our @base = qw(systemd systemd-sysv dbus sudo curl openssl iproute2 procps
    ca-certificates wrk);
our @build = qw(build-essential debhelper dpkg-dev nginx nginx-dev libcbor-dev libcrypt-dev
    libfcgi-dev libfido2-dev liboath-dev libpq-dev libsodium-dev libssl-dev libyajl-dev pkgconf
    perl lintian);

# A tree of the suite with packages, made once and copied for each use.
sub tree ($suite, $name, $packages, $then = undef) {
    my $tar = "$work/$suite-$name.tar";
    return $tar if -s $tar;
    my $tree = "$work/$suite-$name";
    remove($tree);
    run("$suite: a Debian to $name", 'debootstrap', '--variant=minbase',
        $suite, $tree, @mirror) or return;
    quiet($tree);
    run("$suite: packages to $name", 'chroot', $tree, 'env',
        'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-qy', 'install',
        '--no-install-recommends', @$packages) or return;
    $then->($tree) or return if $then;
    system('tar', '-C', $tree, '-cf', "$tar.new", '.') == 0
        && rename("$tar.new", $tar) or return;
    remove($tree);
    return $tar;
}

# What apt will want of a machine that has no network.
sub download ($tree) {
    return run('what the packages depend on', 'chroot', $tree, 'sh', '-c',
        'echo "127.0.0.1 localhost $(hostname)" >/etc/hosts; apt-get -qy'
        . ' -o Debug::NoLocking=1 install --download-only'
        . ' postgresql nginx curl logrotate libfcgi-bin libyajl2 libsodium23'
        . ' libfido2-1 liboath0 libpq5 adduser');
}

# No service may start in a tree that is not booted.
sub quiet ($tree) {
    put("$tree/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n");
    chmod 0755, "$tree/usr/sbin/policy-rc.d";
}

sub unpack_tree ($tar, $tree) {
    remove($tree);
    make_path($tree);
    return system('tar', '-C', $tree, '-xf', $tar) == 0;
}

# A tree to build in, unpacked, with the sources in /src.
sub build_tree ($suite) {
    my $tar = tree($suite, 'build', \@build) or return;
    my $tree = "$work/$suite-build";
    unpack_tree($tar, $tree) or return;
    make_path("$tree/src");
    system("cd '$root' && tar -cf - --exclude=./build --exclude=./build-asan"
        . " --exclude=./run --exclude=./.git . | tar -xf - -C '$tree/src'") == 0
        or return;
    system('mount', '-t', 'proc', 'proc', "$tree/proc");
    return $tree;
}

# -- a machine ---------------------------------------------------------------------------

sub boot ($tree) {
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', "$dir.boot.log";
        open STDERR, '>&', \*STDOUT;
        exec 'setpriv', '--pdeathsig', 'KILL', '--', 'unshare', '--mount',
            '--pid', '--fork', '--kill-child', '--cgroup', '--uts', '--ipc',
            '--net', "$root/t/deb/boot", $tree or _exit(127);
    }
    for (1 .. 300) {
        my ($child) = split ' ', slurp("/proc/$pid/task/$pid/children") // '';
        if ($child) {
            $init = $child;
            my $state = qx{@{[ join ' ', inside() ]} systemctl is-system-running 2>/dev/null};
            return $pid if $state =~ /running|degraded/;
        }
        return if waitpid($pid, WNOHANG) == $pid;
        sleep 0.2;
    }
    kill 'KILL', $pid;
}

# What enters the machine, as root with a login's environment.
sub inside {
    return ('nsenter', '-t', $init, '-m', '-p', '-u', '-i', '-n', '-C', '-r',
        '-w', 'env', '-i', 'HOME=/root', 'LC_ALL=C.UTF-8',
        'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        'DEBIAN_FRONTEND=noninteractive');
}

# Runs a script there; (exit status, what it printed).
sub there ($script, %o) {
    put("$dir/root/script", $script);
    my @shell = ('sh', $o{keep_going} ? () : '-e', '/root/script');
    my $said = qx{@{[ join ' ', inside() ]} @shell 2>&1 </dev/null};
    my $status = $? >> 8;
    noted("inside\n$script\n-- status $status\n$said");
    return ($status, $said);
}

sub works ($what, $script) {
    my ($status, $said) = there($script);
    is $status, 0, $what or diag substr($said, -2000),
        (there('systemctl --failed --no-legend; journalctl -qn 20 -p notice'))[1];
    return $said;
}

sub page { my ($page, @sections) = @_; return commands("$root/$page", @sections) }

# Names its gateway $base.
our $login = <<'SH';
base=https://api.example.com
json='Content-Type: application/json'
field() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
login() {
    printf '{"account":"ann@example.com","credential":"%s"}' \
        "$(cat /root/credential)" | curl -s $base/api/auth/login -H "$json" -d @-
}
refresh() {
    curl -s $base/api/auth/refresh -H "$json" -d "{\"refreshToken\":\"$1\"}"
}
SH

# Runs a script while clients ask for the key set and for a guarded route, each
# request by a connection of its own, and as many others as refreshers says each
# refresh a session, 20 times a second; (how many were answered, how many failed, a
# second's answers).  They have a session of their own, or the scheduler would give
# them a share of what the script does.
sub under_load ($what, $script, $refreshers = 0) {
    works($what, $login . "refreshers=$refreshers\n" . <<'SH'
cat >/root/load.lua <<'LUA'
local n = 0
local path = { '/.well-known/jwks.json', '/api/workspaces/current-context' }
function request()
    n = n + 1
    return wrk.format('GET', path[n % 2 + 1])
end
LUA
cat >/root/refresh.lua <<'LUA'
local next_token = io.lines('/root/tokens')
function setup(thread) thread:set('token', next_token()) end
function delay() return 50 end
function request()
    return wrk.format('POST', '/api/auth/refresh', nil, '{"refreshToken":"' .. token .. '"}')
end
function response(status, headers, body)
    token = body:match('"refreshToken":"([^"]+)"') or token
    if status ~= 200 then
        refused = refused or io.open('/root/refused', 'a')
        refused:write(os.date('!%T '), status, ' ', body, '\n')
        refused:flush()
    end
end
LUA
access=$(login | field accessToken)
rm -f /root/refused
for i in $(seq $refreshers); do echo "$(login | field refreshToken)"; done >/root/tokens
setsid wrk -t 1 -c 32 -d 600s -s /root/load.lua -H 'Connection: close' \
    -H "Authorization: Bearer $access" $base >/root/answers 2>&1 &
load=$!
if [ $refreshers != 0 ]; then
    setsid wrk -t $refreshers -c $refreshers -d 600s -s /root/refresh.lua \
        -H 'Connection: close' -H "$json" $base >/root/refreshed 2>&1 &
    load="$load $!"
fi
sleep 3
SH
        . $script . <<'SH');
sleep 3
kill -INT $load
wait $load
SH
    my ($count, $failed, $rate) = (0, 0, 0);
    for my $clients ('answers', $refreshers ? 'refreshed' : ()) {
        my $said = slurp("$dir/root/$clients") // '';
        my ($did) = $said =~ m{^ *(\d+) requests in}m;
        my ($its) = $said =~ m{^Requests/sec: +([0-9.]+)}m;
        my $lost = 0;
        $lost += $_ for $said =~ /Socket errors: .*/
            ? $& =~ /(\d+)/g : (), $said =~ /Non-2xx or 3xx responses: (\d+)/;
        diag sprintf '%s: %s: %d requests, %.0f a second, %d failed', $what, $clients,
            $did // 0, $its // 0, $lost;
        ok $did && $its, "$what: there was load" or diag $said;
        $count += $did // 0, $failed += $lost, $rate += $its // 0;
    }
    diag substr $_, 0, 1000 for slurp("$dir/root/refused") // ();
    return ($count, $failed, $rate);
}

# One with packages beside it that it is to install.
sub machine ($suite, $tree, @packages) {
    my $tar = tree($suite, 'machine', \@base, \&download) or return;
    $dir = $tree;
    unlink "$dir.log", "$dir.boot.log";
    unpack_tree($tar, $dir) or return;
    unlink "$dir/usr/sbin/policy-rc.d";
    system('cp', @packages, "$dir/root/");
    my $pid = boot($dir);
    ok $pid, 'boots, systemd is process 1' or return;
    certificates();
    return $pid;
}

sub end_machine ($pid, $tree) {
    kill 'KILL', $pid;
    waitpid $pid, 0;
    remove($tree);
}

# An authority that the machine trusts, and what it certifies.
sub certificates {
    return works('certificates', <<'SH');
cd /root
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj '/CN=Test authority' -keyout ca.key \
    -out /usr/local/share/ca-certificates/test.crt 2>/dev/null
update-ca-certificates >/dev/null 2>&1
for name in api staging; do
    mkdir -p /etc/ssl/$name.example.com
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
        -subj /CN=$name.example.com -out $name.csr \
        -keyout /etc/ssl/$name.example.com/privkey.pem 2>/dev/null
    echo subjectAltName=DNS:$name.example.com >$name.ext
    openssl x509 -req -in $name.csr -CAkey ca.key -days 2 -CAcreateserial \
        -CA /usr/local/share/ca-certificates/test.crt -extfile $name.ext \
        -out /etc/ssl/$name.example.com/fullchain.pem 2>/dev/null
    echo "127.0.0.1 $name.example.com" >>/etc/hosts
done
SH
}

1;
