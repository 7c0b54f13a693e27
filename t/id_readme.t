# The README's commands make an account that logs in.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
$t->identity_face;

open my $fh, '<', $t->root . '/README.md' or die "README.md: $!\n";
my $readme = do { local $/; <$fh> };
my ($own) = $readme =~ /^(Create accounts.*?)^## /ms;
my $script = join '', $own =~ /^```sh\n(.*?)^```\n/gms;
like $script // '', qr/^identity account add (\S+)$/m, 'it has them';
my ($account) = $script =~ /^identity account add (\S+)$/m;

my $env = $t->identity_env;
my $file = $t->write_file('platform.env',
    join '', map {"$_='$env->{$_}'\n"} sort keys %$env);
my $program = Platform::Test::Env::identity();
$script =~ s{build/identity-fcgi/identity-fcgi}{$program}
    or fail('it names the program');
$script =~ s{run/platform[.]env}{$file} or fail('and the environment');
$t->write_file('readme.sh', "set -e\n$script");
my $credential = 'a credential of their own';
$t->write_file('credential', "$credential\n");
my $dir = $t->dir;
my $said = qx{sh $dir/readme.sh <$dir/credential 2>$dir/readme.log};
is $?, 0, 'they succeed' or diag $said, $t->read_file('readme.log');
like $said, qr/^Flower Shop .* Market Square\s+yes\s+CASHIER$/m,
    'the last one says what was granted';

my $res = http_post($t->port('identity'), '/api/auth/login',
    json => { account => $account, credential => $credential });
is $res->status, 200, 'the account logs in';
is_deeply((jwt_decode($res->json->{accessToken}))[1]{roles}, ['CASHIER'],
    'in its branch, with its role');
is http_post($t->port('identity'), '/api/auth/login', json => {
    account => $account, credential => 'another' })->status, 401,
    'by its credential alone';

# Blocks are pasted whole: no command that asks stands before another one.

for my $page ('README.md', glob $t->root . '/docs/*.md') {
    open my $in, '<', $page =~ m{^/} ? $page : $t->root . "/$page"
        or die "$page: $!\n";
    my $text = do { local $/; <$in> };
    my @blocks = $text =~ /^```sh\n(.*?)^```\n/gms;
    my @bad = map {
        /^(identity (?:account (?:add(?!.*--no-login)|set-credential)|token
            inspect)[^<|\n]*)\n./mx ? $1 : ()
    } @blocks;
    is_deeply \@bad, [], $page =~ s{.*/}{}r . ': nothing after a prompt';
}

$t->done;
