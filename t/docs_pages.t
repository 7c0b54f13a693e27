# Commands and configurations of README and docs/ as they stand: README's tour
# prints what README says, the first account of docs/operations.md logs in, and
# nginx takes both minimal gateways.  And the threat model and the page of faults name tests
# that there are.

use JSON::PP;
use Platform::Test;
use Platform::Test::Page qw(fixed_ids prints steps);

my $t = Platform::Test->new;
my $s = $t->full_stack;
my ($root, $dir) = ($t->root, $t->dir);

# One shell runs all blocks, as a reader's would.
sub shell ($script) {
    $t->write_file('page.sh', $script);
    return scalar qx{sh $dir/page.sh 2>$dir/page.log};
}

# -- the versions that README names are those that are tested, and that configure.sh takes

my %text = map { $_ => $t->read_file("$root/$_") } qw(README.md docs/install.md tools/matrix
    configure.sh t/deb/check);
my @matrix = map {/^\d/ ? "nginx-$_" : $_} map {/[\w.-]+/g}
    $text{'tools/matrix'} =~ /set -- ((?:\S+ *(?:\\\n\s*)?)+)/;
is_deeply [ $text{'docs/install.md'} =~ /^\| ([a-z]+-[\d.]+) \| builds/mg ], \@matrix,
    "docs/install.md: the table of make matrix: @matrix";
my ($least, $most, $tested, $least_pg) = $text{'README.md'} =~ /^Supported\ are\ nginx\ (\S+)\ to
    \ (\S+)\ \(tested\ with\ ([^)]+)\)\sand\sPostgreSQL\ (\d+)\ or/mx or die 'no versions';
is_deeply [ grep { my $version = $_; !grep { $_ eq "nginx-$version" } @matrix } $tested =~ /[\d.]+/g ],
    [], "README.md: nginx $tested are in that table";
is join(' ', map {/^nginx-(\d+\.\d+)/} @matrix[ 0, 5 ]), "$least $most", '... of which these are the ends';
is_deeply [ $text{'configure.sh'} =~ /at_least "\$nginx_version" (\S+);/,
    $text{'configure.sh'} =~ /"\$\{version%%\.\*\}" -lt (\d+)/ ], [ $least, $least_pg ],
    'configure.sh refuses older ones';
is_deeply [ $text{'README.md'} =~ /on Debian (12) and (13)[;,]/,
    $text{'t/deb/check'} =~ /: (qw\(bookworm trixie\))/ ], [ 12, 13, 'qw(bookworm trixie)' ],
    'make check-deb tests both';

# -- the tour

my @steps = grep { $_->[1] ne '' } steps("$root/README.md", 'A tour');
is scalar @steps, 3, 'the tour has its steps';
my $gateway = 'http://127.0.0.1:' . $s->gateway;
prints('README.md', sub ($tour) { shell($tour =~ s{http://localhost:8080}{$gateway}gr) }, @steps);

# -- the first account

my ($program) = $t->read_file("$root/docs/operations.md") =~ /^```sh\n(identity\(\).*?)^```\n/ms;
my ($make, $member, $login) = steps("$root/docs/operations.md", 'Make the first account');
my $env = $t->identity_env;
my $file = $t->write_file('platform.env', join '', map {"$_='$env->{$_}'\n"} sort keys %$env);
my $binary = Platform::Test::Env::identity();
$program =~ s{build/identity-fcgi/identity-fcgi}{$binary} or die 'no program';
$program =~ s{run/platform[.]env}{$file} or die 'no environment';
$login->[0] =~ s{http://localhost:8080}{$gateway} or die 'no login';
my ($did, $answer) = split /^=== next\n/m, shell("set -e\ncd $dir\n$program$make->[0]"
    . "$member->[0]echo '=== next'\n$login->[0]"), -1;
is $?, 0, 'its commands succeed' or diag $did, $t->read_file('page.log');
is fixed_ids(substr $did, -length $member->[1]), fixed_ids($member->[1]),
    'the last one says what was granted, as on the page';
my $json = eval { decode_json($answer) } // {};
is $json->{code}, 'AUTH_LOGIN_SUCCESS', 'the account logs in' or diag $answer;
is_deeply((jwt_decode($json->{accessToken}))[1]{roles},
    [ 'BRANCH_MANAGER', 'CASHIER' ], 'in its branch, with its roles');
is $s->login('ann@example.com', credential => 'another')->status, 401,
    'by its credential alone';

# Blocks are pasted whole: no command that asks stands before another one.
for my $page ("$root/README.md", glob "$root/docs/*.md") {
    is_deeply [ map {
        /^(identity (?:account (?:add(?!.*--no-login)|set-credential)|token
            inspect)[^<|\n]*)\n./mx ? $1 : ()
    } map { $_->[0] } steps($page) ], [], $page =~ s{.*/}{}r . ': nothing after a prompt';
}

# -- docs/threat-model.md: each threat and class has tests, which there are, and the
#    mutant behind one, of t/mutants/table, names it

my %mutant = $t->read_file("$root/t/mutants/table") =~ /^(\w+): (\S.*)$/mg;
my @rows = map { /^\| (?!threat \||class \|)(\S.*) \|$/mg }
    $t->read_file("$root/docs/threat-model.md") =~ /^## (?:Threats|Published) .*?(?=^## )/msg;
cmp_ok scalar @rows, '>', 40, 'threats and classes';
for my $row (@rows) {
    my ($name, $tests) = $row =~ /\A([^|]+) \|.*\| ([^|]+)\z/;
    my (@wrong, $last);
    for my $word ($tests =~ /`([^`]+)`/g) {
        if ($word =~ /\A(?:t\/|check_)/) {
            $last = $word;
            my @at = grep { -f } "$root/$word", glob "$root/{jose,identity-fcgi,ngx*}/test/$word.c";
            push @wrong, "$word is not there" if !@at;
            next;
        }
        push @wrong, "$word: not noticed by $last"
            if ($mutant{$word} // '') !~ /(?<!\S)\Q$last\E(?!\S)/;
    }
    is_deeply [ $last ? () : 'no test', @wrong ], [], "threat: $name";
}

# -- docs/reliability.md: each test that it names is there, and the faults of its first
#    table are those of that test, in its order

my $reliability = $t->read_file("$root/docs/reliability.md");
my @tests = $reliability =~ /`(t\/[^`]+)`/g;
is_deeply [ grep { !-f "$root/$_" } @tests ], [], 'reliability: the tests are there';
cmp_ok scalar @tests, '>', 10, 'reliability: they are many';
my ($measured) = $reliability =~ /^## What was measured\n(.*?)^## /ms;
my @faults = $measured =~ /^\| ([^|]+) \| \d+ clients \|/mg;
my ($table) = $t->read_file("$root/t/fault_under_load.t") =~ /^my \@faults = \((.*?)^\);/ms;
is_deeply [ grep { index($table, "'" . s/^(?:issuer|feed): //r . "'") < 0 } @faults ], [],
    'reliability: each fault is one of t/fault_under_load.t';
cmp_ok scalar @faults, '>=', 24, 'reliability: all of them';

# -- configurations; what they leave to nginx is nginx's

my $directives = $t->read_file("$root/docs/directives.md");
my ($own, $minimal) = map { $_->[0] =~ /^## $_->[1]\n.*?^```nginx\n(.*?)^```\n/ms }
    [ $t->read_file("$root/README.md"), 'In your own nginx' ],
    [ $directives, 'A minimal gateway' ];

sub key_location ($conf) {
    my ($block) = $conf =~ /^\s*(location = \/_keys \{.*?^\s*\})$/ms;
    return $block =~ s/^\s*(?:#.*)?\n?//mgr;
}
is key_location($own), key_location($minimal),
    'the README\'s key location is that of the directives\' minimal gateway';

# Issuers elsewhere are on this host, and the system trusts whom they like.
system "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=x -keyout $dir/x.key "
    . "-out $dir/x.pem 2>/dev/null";
$t->write_file('keys.json', jwks(jwt_key('a')));

# Nginx takes each block of the pages about issuers where it belongs, beside what
# the page has elsewhere: another issuer, and the location of its keys.
my %http = (directives => $minimal);
my $public = 'platform_gateway_access public;';
for my $page ([ directives => 'Several issuers' ], ['other-issuers'], ['coming-from'],
    ['revocation-feed'])
{
    my ($name, $section) = @$page;
    my $text = $t->read_file("$root/docs/$name.md");
    ($text) = $text =~ /^## \Q$section\E\n(.*?)(?:^## |\z)/ms if $section;
    my $n = 0;
    for my $block ($text =~ /^```nginx\n((?!load_module).*?)^```\n/gms) {
        $block =~ s{(?:proxy_pass|set \$\w+) https://\K[\w.-]+}{127.0.0.1}g;
        $block =~ s{/etc/ssl/certs/ca-certificates\.crt}{$dir/x.pem}g;
        my ($first) = ($block =~ /\A(\w+)/, ++$n);
        if ($first eq 'http') {
            $http{"$name-$n"} = $block;
            next;
        }
        my $at = { location => 'server', server => 'http',
            platform_gateway_trust => 'http', map => 'http', platform_gateway_revocations => 'http' }->{$first} // 'location';
        my %in = (http => 'platform_gateway_trust else { issuer x; audience x; key_file keys.json; }',
            server => 'platform_gateway on;', location => 'empty_gif;');
        $in{location} .= $at eq 'location' ? 'platform_gateway_access token;' : $public;
        $in{$at} .= "\n$block";
        $in{server} .= "location = $_ { internal; $public proxy_pass http://127.0.0.1;"
            . ' subrequest_output_buffer_size 1m; }'
            for grep { $block !~ /location = $_ / } $block =~ /(?:key_location |uri=)([^\s;]+)/g;
        my ($ok, $why) = $t->location_test(%in);
        ok $ok && $why !~ /\[warn\]/, "$name: nginx takes block $n, at $at, and is silent"
            or diag $why, $block;
    }
    cmp_ok $n, '>', 1, "$name has blocks";
}

SKIP: {
    my $nginx = Platform::Test::Env::nginx();
    my ($log) = qx{$nginx -V 2>&1} =~ m{--http-log-path='?(/[^' ]*)/};
    skip "nginx's log directory $log is not ours", 1 + keys %http if $log && !-w $log;

    my $prefix = "$dir/readme";
    mkdir $_ for $prefix, "$prefix/modules", "$prefix/logs";
    symlink Platform::Test::Env::module(),
        "$prefix/modules/ngx_http_platform_gateway_module.so";
    my ($load) = $directives =~ /^```nginx\n(load_module [^\n]+\n)```\n/m;
    my %conf = (readme => $own, map { $_ => "${load}events { }\n$http{$_}" } keys %http);
    for my $name (sort keys %conf) {
        my ($ok, $out) = Platform::Test::Nginx->new(
            dir => $dir, name => $name, prefix => $prefix,
            conf => $t->write_file("$name.conf", $conf{$name}),
            args => [ '-g', "pid $prefix/nginx.pid;" ])->test;
        ok $ok && $out !~ /\[warn\]/, "nginx takes it, and is silent: $name" or diag $out;
    }
}

$t->done;
