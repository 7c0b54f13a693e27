# docs/operations.md: its first account is made by the page's commands, and logs in.

use JSON::PP;
use Platform::Test;

my $t = Platform::Test->new;
$t->identity_face;

open my $fh, '<', $t->root . '/docs/operations.md' or die "operations.md: $!\n";
my $page = do { local $/; <$fh> };
close $fh;
my ($program) = $page =~ /^```sh\n(identity\(\).*?)^```\n/ms;
my ($first) = $page =~ /^## Make the first account\n(.*?)^## /ms;
my @blocks = $first =~ /^```sh\n(.*?)^```\n/gms;
my ($table) = $first =~ /^```text\n(.*?)^```\n/ms;
is scalar @blocks, 3, 'the page has its steps';

my $dir = $t->dir;
my $env = $t->identity_env;
my $file = $t->write_file('platform.env', join '', map {"$_='$env->{$_}'\n"} sort keys %$env);
my $binary = Platform::Test::Env::identity();
my $port = $t->port('identity');
my $script = join '', "set -e\ncd $dir\n", $program, @blocks[0, 1],
    "echo '=== login'\n", $blocks[2];
$script =~ s{build/identity-fcgi/identity-fcgi}{$binary} or die 'no program';
$script =~ s{run/platform[.]env}{$file} or die 'no environment';
$script =~ s{http://localhost:8080/}{http://127.0.0.1:$port/} or die 'no login';
$t->write_file('page.sh', $script);
my ($said, $answer) = split /^=== login\n/m, qx{sh $dir/page.sh 2>$dir/page.log};
is $?, 0, 'its commands succeed' or diag $said, $t->read_file('page.log');

sub without_ids { return $_[0] =~ s/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/id/gr }
is without_ids(substr $said, -length $table), without_ids($table),
    'the last one says what was granted, as on the page';

my $json = eval { decode_json($answer) } // {};
is $json->{code}, 'AUTH_LOGIN_SUCCESS', 'the account logs in' or diag $answer;
is_deeply((jwt_decode($json->{accessToken}))[1]{roles},
    [ 'BRANCH_MANAGER', 'CASHIER' ], 'in its branch, with its roles');
is http_post($port, '/api/auth/login', json => {
    account => 'ann@example.com', credential => 'another' })->status, 401,
    'by its credential alone';

# Blocks are pasted whole: no command that asks stands before another one.

for my $page ('README.md', glob $t->root . '/docs/*.md') {
    open my $in, '<', $page =~ m{^/} ? $page : $t->root . "/$page" or die "$page: $!\n";
    my $text = do { local $/; <$in> };
    my @blocks = $text =~ /^```sh\n(.*?)^```\n/gms;
    my @bad = map {
        /^(identity (?:account (?:add(?!.*--no-login)|set-credential)|token
            inspect)[^<|\n]*)\n./mx ? $1 : ()
    } @blocks;
    is_deeply \@bad, [], $page =~ s{.*/}{}r . ': nothing after a prompt';
}

$t->done;
