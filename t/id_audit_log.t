# Where the audit lines of commands go: PLATFORM_AUDIT_LOG.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::UNIX;
use JSON::PP;
use Platform::Test;
use Socket qw(SOCK_DGRAM MSG_DONTWAIT);
use Test::More;

my $t = Platform::Test->new(module => 0);
my $pg = $t->postgres;
my ($status, $out, $err) = $t->run_identity(['seed']);
is $status, 0, 'seeded' or diag $err;

# Disables or enables the account, by turns: always a change.
my $turns = 0;

sub change {
    my ($where) = @_;

    my $verb = $turns++ % 2 ? 'enable' : 'disable';
    ($status, $out, $err) = $t->run_identity(
        [ 'account', $verb, 'one@demo.test' ], PLATFORM_AUDIT_LOG => $where);
    return "account.${verb}d";
}

sub account_status {
    return $pg->sql("select status from accounts
        where account_name = 'one\@demo.test'");
}

# By default, and when asked for: on standard error.

for my $where (undef, 'stderr') {
    my $event = change($where);
    is $status, 0, 'standard error' or diag $err;
    is decode_json($err)->{event}, $event, 'has the line';
    unlike $out, qr/"audit"/, 'standard output has the result alone';
}

# A file: made for its owner alone, and added to.

my $file = $t->dir . '/audit.log';
my @events;
for my $turn (1, 2) {
    push @events, change($file);
    is $status, 0, "a file, $turn" or diag $err;
    is $err, '', 'nothing on standard error';
    like $out, qr/^status\s+/m, 'the result on standard output';
    my @lines = map { decode_json($_) } split /\n/, $t->read_file('audit.log');
    is_deeply [ map { $_->{event} } @lines ], \@events, 'each line is in it';
    ok $lines[-1]{audit} && $lines[-1]{accountId}, 'and is the audit line';
}
is sprintf('%04o', (stat $file)[2] & 07777), '0600', 'its mode';

# The system's log: a datagram in the form of syslog, authpriv.info.

my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM,
    Local => $t->dir . '/log') or die "socket: $!\n";
my $event = change($t->dir . '/log');
is $status, 0, 'a log socket' or diag $err;
is $err, '', 'nothing on standard error';
$socket->recv(my $line, 65536, MSG_DONTWAIT);
my ($json) = ($line // '') =~ /\A<86>identity-fcgi: (\{.*\})\n\z/;
is decode_json($json // '{}')->{event}, $event, 'gets the line';
my $rest;
ok !defined $socket->recv($rest, 1, MSG_DONTWAIT), 'once';

# What cannot be opened is told before anything is changed.

my $before = account_status();
my @refused = ([ $t->dir . '/none/audit.log', qr/No such file or directory/ ]);
push @refused, [ journal => qr/No such file or directory/ ]
    unless -e '/dev/log';
close $socket;
push @refused, [ $t->dir . '/log', qr/Connection refused/ ];
for (@refused) {
    my ($where, $why) = @$_;

    change($where);
    is $status, 1, "refused: $where";
    like $err, qr/\Aidentity-fcgi: PLATFORM_AUDIT_LOG: \Q$where\E: $why\n\z/,
        'with the reason';
    is $out, '', 'no result';
    is account_status(), $before, 'and no change';
    $turns--;
}

# What is lost afterwards is told, too.

$event = change('/dev/full');
is $status, 3, 'a full disk: its own exit status';
like $err, qr/the change was made and stands, but its audit line/, 'and line';
isnt account_status(), $before, 'the change stands';

($status, $out, $err) = $t->run_identity(['--check'],
    PLATFORM_AUDIT_LOG => 'audit.log');
is $status, 2, 'no relative path';
like $err, qr/PLATFORM_AUDIT_LOG: "audit.log" is not accepted; accepted: stderr, journal, or /,
    'which it says';

# The service has one log for all: its own.

my $identity = $t->identity(PLATFORM_AUDIT_LOG => $file);
my $got = $t->fcgi($identity->address)->request(POST => '/api/auth/login',
    body => '{"account":"several@demo.test","credential":"Demo-passw0rd!"}');
is $got->{status}, 200, 'a login';
like join('', $identity->log_text), qr/"auth\.login\.succeeded","audit":true/,
    'is audited in the log of the service';
unlike $t->read_file('audit.log'), qr/auth\.login/, 'and not in the file';

$t->done;
