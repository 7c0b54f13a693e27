# What the loaded module costs a request to a server where it is off: counted
# in instructions from a request's head to its log line, over many requests.

use Platform::Test;

my $valgrind = Platform::Test::Env::find('valgrind');
plan skip_all => 'counted by callgrind: needs valgrind, and a plain build'
    if !$valgrind || Platform::Test::Env::asan() || Platform::Test::Env::valgrind();

my ($many, $most) = (250, 500);

my $t = Platform::Test->new(module => 0);
# What stands in <> is there with the module.
my $CONF = <<'CONF';
%%GLOBALS%%
<load_module %%MODULE%%;>
master_process off;
events { }
http {
    %%GLOBALS_HTTP%%
    keepalive_requests 10000;
    server { listen 127.0.0.1:%%PORT_off%%; root %%DIR%%/www; }
    <server { listen 127.0.0.1:%%PORT_on%%; platform_gateway on; platform_gateway_access public; }>
}
CONF
$t->write_file('www/page', 'text');

# Instructions of one nginx that answers $n requests.
sub instructions ($name, $n) {
    my $nginx = $t->nginx_conf($CONF =~ s/<(.*)>/$name eq 'with' ? $1 : ''/ger, $name);
    my $log = $t->dir . "/$name-$n.callgrind.log";
    my $process = Platform::Test::Process->start(
        name => $name, dir => $t->dir, log => $t->dir . "/$name.out.log",
        # Without the event loop, which depends on the load of the machine.
        cmd => [ $valgrind, '--tool=callgrind', "--log-file=$log",
            '--toggle-collect=ngx_http_process_request',
            "--callgrind-out-file=$log.out", $nginx->_command ],
    );
    eventually(sub {
        eval { Platform::Test::Http->new(port => $t->port('off')) };
    }) or die "nginx did not start under callgrind\n";

    my $http = Platform::Test::Http->new(port => $t->port('off'));
    $http->send("HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n" x ($n - 1)
        . "HEAD /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    my $good = () = $http->read_all =~ m{HTTP/1\.1 200 }g;
    die "$good of $n answers\n" if $good != $n;

    # nginx may be about to wait for events when the signal comes: wake it
    kill QUIT => $process->pid;
    eval { Platform::Test::Http->new(port => $t->port('off')) };
    $process->stop('QUIT');
    # Without the C library's allocator: what it costs hangs on the holes that the
    # configuration left in the heap, and so on the length of a path (220 a request).
    my $count = 0;
    for (qx{callgrind_annotate --auto=no --threshold=100 $log.out}) {
        my ($n, $function) = /^ *([\d,]+) \([^)]*\) +\S*?([^:\s]+)(?: \[.*)?$/ or next;
        next if $function =~ /\A(?:_int_)?(?:malloc|free|unlink_chunk)/;
        $count += $n =~ tr/,//dr;
    }
    return $count || die "callgrind counted nothing\n";
}

my %cost = map { ($_ => instructions($_, $many) / $many) } qw(with without);
my $extra = $cost{with} - $cost{without};
note sprintf 'a request takes %.0f instructions without the module, '
    . '%.0f with it, off: %.0f more', @cost{qw(without with)}, $extra;
cmp_ok $cost{without}, '>', 5000, 'control: requests were counted';
cmp_ok $extra, '<=', $most, "at most $most instructions more";

$t->done;
