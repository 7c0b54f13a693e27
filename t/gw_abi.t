# A module that was compiled for other layouts than those of the nginx that loads
# it is refused in one line, which says what differs.  Distributions have patched
# a field into a structure without a change of version or signature.

use Platform::Test;

Platform::Test::Env::plain('a module is linked for each layout');

my $t = Platform::Test->new(module => 0);
my ($root, $dir, $build) = ($t->root, $t->dir, Platform::Test::Env::build());
my $MODULE = 'ngx_platform_gateway_module';
my @ROOMS = grep { $_ ne 'test' } map {m{([^/]+)/\z}} glob "$root/$MODULE/*/";
# Where nginx's own build made the module (tools/module), its objects are in addon.
my ($nginx, $made, $rooms) = ("$root/build/nginx", $build, "$build/$MODULE");
($nginx, $made, $rooms) = ("$build/..", ("$build/addon") x 2) if -d "$build/addon";
my @others = grep { -e && !/_abi\.o\z/ } glob("$made/{jose,common}/*.o $build/*_module_modules.o"),
    "$made/$MODULE/modules_list.o",
    map({s/\A\Q$root\E(.*)c\z/$made$1o/r} glob "$root/$MODULE/*.c"),
    map {s{.*/([^/]+/[^/]+)c\z}{$rooms/$1o}r} map { glob "$root/$MODULE/$_/*.c" } @ROOMS;
my $headers = join ' ', map {"-isystem $_"} map({"$nginx/$_"} qw(src/core src/event
        src/event/modules src/event/quic src/os/unix src/http src/http/modules src/http/v2
        src/http/v3 objs)), "$root/jose", "$root/common";
my @paths = map {"${_}_temp_path $dir/$_;"} qw(client_body proxy fastcgi uwsgi scgi);
$t->write_file('nginx.conf', "load_module $dir/module.so;\npid $dir/nginx.pid;\n"
    . "error_log stderr;\nevents { }\nhttp { access_log off; @paths\n"
    . "platform_gateway_zone keys:1m; platform_gateway_key_file $dir/keys.json;\n"
    . "server { listen unix:$dir/s; } }\n");
$t->write_file('keys.json', jwks(jwt_key('a')));

# The file that looks, preprocessed once, and all others linked into one.  The text is
# cut where a structure begins and where it ends.
my $text = qx{cd $root/$MODULE && cc -E -P $headers -I. nginx/ngx_http_pgw_abi.c};
my @part = split /^(?=typedef struct \{|struct \w+ \{|\})/m, $text;
system("ld -r -S -o $dir/others.o @others") == 0 or die "ld failed\n";

# The text where that structure has another field before one (+field), lacks that
# (-field), has that before its neighbour (~field), or another one at its end; where bits
# are, it is a bit.  Returns nothing if this nginx has no such field.
sub edited ($type, $place) {
    my ($how, $field) = $place =~ /\A([+~-]?)(\w+)\z/;
    my $struct = $type =~ s/_t\z/_s/r;
    my ($n) = grep { $part[$_] =~ /\Astruct $struct \{/
        || $part[$_] =~ /\Atypedef struct \{/ && $part[ $_ + 1 ] =~ /\A\} $type;/ } 0 .. $#part;
    defined $n or die "no $type\n";
    my $new = "void *pgw_new;\n";
    local $part[$n] = $part[$n];
    if ($how eq '~') {
        $part[$n] =~ s/^([^\n]+\n)([^\n]*[ *]$field;[^\n]*\n)/$2$1/m or return;
    }
    else {
        $part[$n] =~ s/^[^\n]*[ *]$field(:\d+)?;[^\n]*\n/
            $how eq '-' ? '' : ($1 ? "unsigned pgw_new:1;\n" : $new) . $&/me
            || $field eq 'end' && ($part[$n] .= $new) or return;
    }
    return join '', @part;
}

# What nginx -t says of the module, if the file that looks was compiled with that text.
sub said ($text) {
    $t->write_file('abi.i', $text);
    my $said = qx{cd $dir && cc -w -c -O0 -fPIC -fvisibility=hidden -o abi.o abi.i 2>&1 \\
        && cc -shared -Wl,--version-script=$root/$MODULE/module.map -o module.so abi.o others.o \\
        -lyajl -lcrypto 2>&1};
    return $? ? "not made: $said"
        : qx{@{[ Platform::Test::Env::nginx() ]} -e stderr -t -c $dir/nginx.conf 2>&1};
}

like said($text), qr/test is successful/, 'the headers of this nginx (control)';

my ($IN, $OUT, $R) = map {"ngx_http_${_}_t"} qw(headers_in headers_out request);
my ($MAIN, $SRV, $LOC) = map {"ngx_http_core_${_}_conf_t"} qw(main srv loc);
my @cases = (
    [ $IN, '+headers' => "offset of $IN.host" ], [ $IN, '+upgrade' => "offset of $IN.upgrade" ],
    [ $IN, '-if_match' => "offset of $IN.user_agent" ],
    [ $IN, '+authorization' => "offset of $IN.authorization" ],
    [ $IN, 'end' => "offset of $R.headers_out.cache_control" ],
    [ $OUT, '+status' => "offset of $OUT.content_length" ], [ $OUT, 'end' => "offset of $R.uri" ],
    [ $R, '+connection' => "offset of $R.headers_in.host" ],
    [ $R, '+main' => "offset of $R.limit_rate" ],
    [ $R, '-lingering_time' => "offset of $R.uri" ], [ $R, '+err_status' => "$R.subrequests" ],
    [ $R, '+cached' => "$R.internal" ], [ $R, '+filter_need_in_memory' => "$R.background" ],
    [ $R, 'end' => "size of $R" ],
    [ $MAIN, '+variables' => "offset of $MAIN.variables_hash_bucket_size" ],
    [ $MAIN, 'end' => "size of $MAIN" ],
    [ $SRV, '+ctx' => "offset of $SRV.client_header_buffer_size" ],
    [ $SRV, '~merge_slashes' => "offset of $SRV.merge_slashes" ],
    [ $LOC, '+name' => "offset of $LOC.default_type" ],
    [ $LOC, '+internal' => "offset of $LOC.sendfile" ],
    [ $LOC, '+error_log' => "offset of $LOC.types_hash_bucket_size" ],
    [ $LOC, 'end' => "size of $LOC" ],
    [ ngx_http_upstream_conf_t => '+cache_purge' =>
        'distance of ngx_http_upstream_conf_t.no_cache' ],
    [ ngx_http_upstream_t => '+headers_in' => 'size of ngx_http_upstream_t' ],
    [ ngx_http_upstream_state_t => '+peer' => 'ngx_http_upstream_state_t.peer' ],
    [ ngx_connection_t => '+fd' => 'ngx_connection_t.number' ],
    [ ngx_connection_t => '+timedout' => 'ngx_connection_t.tcp_nodelay' ],
    [ ngx_pool_cleanup_t => '+handler' => 'size of ngx_pool_cleanup_t' ],
    [ ngx_event_t => '+timer' => 'size of ngx_http_cache_t' ],
    [ ngx_cycle_t => '+modules_n' => 'ngx_cycle_t.old_cycle' ],
    [ ngx_buf_t => 'end' => 'size of ngx_buf_t' ],
    [ ngx_connection_t => '-listening' => 'ngx_connection_t.number' ],
    [ ngx_log_t => '+handler' => 'ngx_cycle_t.old_cycle' ],
    [ $R, '-header_in' => "offset of $R.headers_in.host" ],
    [ $MAIN, '-prefix_variables' => "offset of $MAIN.variables_hash_bucket_size" ],
    [ $LOC, '-auth_delay' => "offset of $LOC.satisfy" ],
    [ ngx_http_upstream_srv_conf_t => '+host' => 'ngx_http_upstream_srv_conf_t.port' ],
    [ ngx_slab_pool_t => '+mutex' => 'ngx_slab_pool_t.addr' ],
    [ ngx_shm_zone_t => '+init' => 'size of ngx_shm_zone_t' ],
    [ ngx_http_complex_value_t => 'end' => 'size of ngx_http_complex_value_t' ],
    [ ngx_http_script_var_code_t => '+index' => 'size of ngx_http_script_*_code_t' ],
    [ ngx_http_script_regex_code_t => '+redirect' => 'ngx_http_script_regex_code_t.redirect' ],
    [ ngx_http_script_regex_code_t => 'end' => 'size of ngx_http_script_*_code_t' ],
);
for my $case (@cases) {
    my ($type, $place, $what) = @$case;
    my $edited = edited($type, $place) // do { diag("this nginx has no $type, $place"); next };
    my @lines = grep {/\[emerg\]/} split /^/, said($edited);
    is scalar @lines, 1, "$type, $place: refused in one line";
    like $lines[0] // '', qr/: \Q$what\E is -?\d+ in the module and -?\d+ in nginx: rebuild\b/,
        "$type, $place: which says why";
}

done_testing;
