#!/bin/sh
# Finds what building, running and testing need, and writes build/config.mk.
# Run with --help for the options.
#
# shellcheck disable=SC2154  # what probe_lib sets, it sets by eval

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

prefix=/usr/local
sysconfdir=
modulesdir=
nginx_bin=${NGINX:-}
nginx_src=
pg_bindir=${PG_BINDIR:-}
cc=${CC:-}
install=''
verbose=''

usage() {
    cat <<'USAGE'
Usage: ./configure.sh [option ...]

Looks for the compiler, libraries, servers and test tools, says in one line
each what it found, and writes build/config.mk for make.

  --install-deps        install what building and make run need (Debian, Ubuntu;
                        as root or with sudo); starts and enables no service
  --install-test-deps   the same, and what make check and make lint need
  --install-bench-deps  the same, and what make bench needs
  --install-release-deps  the same, and what make image and make release need
  --install-fleet-deps  the same as for tests, and what make fleet needs
  --verbose             say what each later stage lacks, package by package
  --with-nginx=FILE     the nginx binary to build for (default: from PATH)
  --with-nginx-src=DIR  sources of exactly that nginx version (default:
                        /usr/share/nginx/src of Debian's nginx-dev, or what
                        --install-deps fetches of it into build/nginx-dev)
  --with-pg-bindir=DIR  directory of initdb and postgres (default: the newest
                        /usr/lib/postgresql/*/bin, or what --install-deps
                        fetches into build/postgresql)
  --prefix=DIR          where make install puts things (default: /usr/local)
  --sysconfdir=DIR      configuration (default: /etc, or DIR/etc under another
                        prefix than /usr and /usr/local)
  --modulesdir=DIR      nginx modules (default: what nginx -V says)
  --help                this text

Environment: CC, CFLAGS, LDFLAGS, NGINX, PG_BINDIR.
USAGE
}

die() {
    echo "configure.sh: $*" >&2
    exit 1
}

for arg; do
    value=${arg#*=}
    case $arg in
    --help | -h) usage; exit 0 ;;
    --install-deps) install="$install build run" ;;
    --install-test-deps) install="$install build run test" ;;
    --install-bench-deps) install="$install build run test bench" ;;
    --install-release-deps) install="$install build run test bench release" ;;
    --install-fleet-deps) install="$install build run test fleet" ;;
    --verbose) verbose=all ;;
    --with-nginx=?*) nginx_bin=$value ;;
    --with-nginx-src=?*) nginx_src=$value ;;
    --with-pg-bindir=?*) pg_bindir=$value ;;
    --prefix=/*) prefix=$value ;;
    --sysconfdir=/*) sysconfdir=$value ;;
    --modulesdir=/*) modulesdir=$value ;;
    *) die "unknown or incomplete option '$arg'; see --help" ;;
    esac
done

# -- probes ----------------------------------------------------------------
#
# Each probe ends in found, missing or wrong.  What the build needs fails the
# run; what is needed later is noted, and make says so when it is.

quiet=no
stage=build          # what it is looked for: build, run, test, bench, release, fleet
packages=''          # to install
optional=''          # those that tests go without
build_lacks=''
test_lacks=''
wrong_names=''

say() {
    [ $quiet = yes ] || printf '  %-20s %s\n' "$1" "$2"
}

found() {
    say "$1" "$2"
}

# What a stage lacks has lines of its own where the stage is asked for.  A machine that
# only builds and runs is healthy without it: one line has the number of packages.
later=''             # stage:package ...

is_asked_for() { # stage
    case " build run $install $verbose " in
    *" $1 "* | *" all "*) ;;
    *) return 1 ;;
    esac
}

not_found() { # name, what is said, Debian package
    if is_asked_for $stage; then
        say "$1" "$2"
    else
        later="$later $stage:$3"
    fi
}

say_later() {
    for pair in 'test:make check, lint' 'bench:make bench' 'release:make release' \
        'fleet:make fleet'; do
        # shellcheck disable=SC2086
        count=$(printf '%s\n' $later | sort -u | grep -c "^${pair%%:*}:") || continue
        say "${pair#*:}" "needs $count more packages: ./configure.sh --install-${pair%%:*}-deps"
    done
}

lacks() { # Debian package
    case $stage in
    build) build_lacks="$build_lacks $1" ;;
    run | test)
        case "$test_lacks " in
        *" $1 "*) ;;
        *) test_lacks="$test_lacks $1" ;;
        esac ;;
    esac
}

wanted() { # Debian package
    case " $install " in
    *" $stage "*) packages="$packages $1" ;;
    esac
}

missing() { # name, Debian package
    case $stage in
    build) say "$1" "MISSING: Debian package $2" ;;
    *) not_found "$1" "not found (Debian package $2): needed to $stage it" "$2" ;;
    esac
    lacks "$2"
    wanted "$2"
}

wrong() { # name, what is wrong, Debian package
    say "$1" "UNUSABLE: $2"
    if [ $stage = build ]; then
        wrong_names="$wrong_names $1"
    else
        lacks "$3"
    fi
}

absent() { # name, Debian package, what goes without
    not_found "$1" "not found (Debian package $2): $3" "$2"
    wanted "$2"
    optional="$optional $2"
}

# Every path that reaches the Makefile is checked: make has no quoting.
plain_path() {
    case $1 in
    *[!A-Za-z0-9_./+@=-]*) return 1 ;;
    esac
}

at_least() { # version, the least that does
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

probe_cc() {
    for try in $cc cc gcc clang; do
        cc=$(command -v "$try" 2>/dev/null) || continue
        if printf '#include <stdio.h>\nint main(void){return 0;}\n' |
            "$cc" -x c -std=c11 -fsyntax-only - 2>/dev/null; then
            found "C compiler" "$("$cc" --version | head -n 1)"
            return
        fi
    done
    cc=
    missing "C compiler" "gcc"
    [ -f /usr/include/stdio.h ] || missing "C library headers" "libc6-dev"
}

probe_tool() { # name, command, package, how to ask its version
    path=$(command -v "$2" 2>/dev/null) || path=
    if [ -z "$path" ]; then
        missing "$1" "$3"
    else
        found "$1" "$($4 2>&1 | head -n 1 | cut -c 1-60)"
    fi
}

probe_optional() { # name, command, package, what goes without, version
    path=$(command -v "$2" 2>/dev/null) || path=
    if [ -z "$path" ]; then
        absent "$1" "$3" "$4"
    else
        found "$1" "$($5 2>&1 | sed -n '/[0-9]/{p;q;}')"
    fi
}

probe_lib() { # variable, name, pkg-config module, minimum, package
    eval "$1_cflags='' $1_libs=''"
    if ! command -v pkg-config >/dev/null 2>&1 ||
        ! pkg-config --exists "$3"; then
        missing "$2" "$5"
    elif ! pkg-config --atleast-version="$4" "$3"; then
        wrong "$2" "$(pkg-config --modversion "$3"), but $4 or newer is needed" \
            "$5"
    else
        eval "$1_cflags=\$(pkg-config --cflags $3)"
        eval "$1_libs=\$(pkg-config --libs $3)"
        found "$2" "$(pkg-config --modversion "$3")"
    fi
}

probe_nginx() {
    bin=$nginx_bin
    if [ -z "$bin" ]; then
        bin=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v nginx) || bin=
    fi
    nginx_path=''
    nginx_version=''
    if [ -z "$bin" ]; then
        missing "nginx" "nginx"
        return
    fi
    nginx_version=$("$bin" -v 2>&1 | sed -n 's|^nginx version: [^/]*/||p') ||
        nginx_version=
    nginx_version=${nginx_version%% *}
    if [ -z "$nginx_version" ]; then
        wrong "nginx" "$bin does not answer to -v as nginx does"
        return
    fi
    if ! at_least "$nginx_version" 1.22; then
        wrong "nginx" "$bin is $nginx_version, but 1.22 or newer is needed"
        return
    fi
    case $bin in /*) ;; *) bin=$(command -v "$bin") ;; esac
    nginx_path=$bin
    configured=$("$bin" -V 2>&1 | sed -n 's/^configure arguments: *//p')
    nginx_modules=${modulesdir:-$(printf '%s\n' "$configured" |
        sed -n "s/.*--modules-path='*\([^ ']*\).*/\1/p")}
    if [ -z "$nginx_modules" ]; then
        nginx_modules=$(printf '%s\n' "$configured" |
            sed -n "s/.*--prefix='*\([^ ']*\).*/\1/p")
        nginx_modules=${nginx_modules:-/usr/local/nginx}/modules
    fi
    for need in http_ssl_module http_realip_module; do
        case $configured in
        *--with-$need*) ;;
        *) wrong "nginx" "$bin was built without --with-$need"
           return ;;
        esac
    done
    found "nginx" "$nginx_version ($bin)"
}

probe_nginx_src() {
    dir=${nginx_src:-/usr/share/nginx/src}
    if [ ! -d "$dir" ] && [ -z "$nginx_src" ] &&
        [ "$(nginx_package)" = "$(cat "$nginx_dev/version" 2>&1)" ]; then
        dir=$nginx_dev/usr/share/nginx/src
    fi
    if [ ! -f "$dir/src/core/nginx.h" ]; then
        if [ -n "$nginx_src" ]; then
            wrong "nginx sources" "no src/core/nginx.h in $dir"
        else
            missing "nginx sources" "nginx-dev"
        fi
        return
    fi
    version=$(sed -n 's/^#define NGINX_VERSION *"\(.*\)"/\1/p' \
        "$dir/src/core/nginx.h")
    if [ -n "$nginx_version" ] && [ "$version" != "$nginx_version" ]; then
        wrong "nginx sources" "$dir is $version, but nginx is \
$nginx_version; give the right ones by --with-nginx-src"
        return
    fi
    nginx_src_path=$(CDPATH='' cd -- "$dir" && pwd)
    found "nginx sources" "$version ($nginx_src_path)"
}

# What upstreams reached by https are checked against.
probe_certificates() {
    if [ -s /etc/ssl/certs/ca-certificates.crt ]; then
        found "CA certificates" "/etc/ssl/certs/ca-certificates.crt"
    else
        missing "CA certificates" "ca-certificates"
    fi
}

# A module of Debian's nginx; other builds have their own, if any.
probe_njs() {
    if [ -n "$nginx_path" ] &&
        [ -f "$nginx_modules/ngx_http_js_module.so" ]; then
        found "njs" "$nginx_modules/ngx_http_js_module.so"
    elif [ -z "$nginx_path" ] || dpkg -s nginx-common >/dev/null 2>&1; then
        absent "njs" libnginx-mod-http-js "no test of its subrequests"
    fi
}

# Libraries that verify tokens, as the services of others do.
probe_consumers() {
    while read -r package file; do
        if [ -e "$file" ]; then
            found "$package" "$file"
        else
            absent "$package" "$package" "no test of such a library"
        fi
    done <<EOF
apache2-bin /usr/sbin/apache2
golang-github-coreos-go-oidc-dev /usr/share/gocode/src/github.com/coreos/go-oidc
libapache2-mod-auth-openidc /usr/lib/apache2/modules/mod_auth_openidc.so
libcrypt-jwt-perl /usr/share/perl5/Crypt/JWT.pm
python3-authlib /usr/lib/python3/dist-packages/authlib
python3-jose /usr/lib/python3/dist-packages/jose
python3-jwt /usr/lib/python3/dist-packages/jwt
python3-requests /usr/lib/python3/dist-packages/requests
EOF
    probe_optional "Go" go golang-go "the same" "go version"
}

# Its launcher may warn of the machine, in lines with digits.
chromium_version() {
    chromium --version 2>/dev/null
}

# libFuzzer is a part of it that has a package of its own.
probe_fuzzer() {
    if echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void)
        { return 0; }' | clang -xc -fsanitize=fuzzer,address -o /dev/null - \
        2>/dev/null; then
        found "libFuzzer" "$(clang --version | sed -n 1p)"
    else
        absent "libFuzzer" "clang libclang-rt-dev" "no make fuzz"
    fi
}

# What the tests use of node's packages is in t/node, as its lock file says.
probe_node_packages() {
    if [ -n "$(find "$root/t/node/node_modules/.package-lock.json" \
        -newer "$root/t/node/package-lock.json" 2>/dev/null)" ]; then
        node_packages=yes
        found "node packages" "t/node/node_modules"
    else
        node_packages=no
        not_found "node packages" "not found (npm ci in t/node): as without npm" npm
    fi
}

probe_postgres() {
    pg_path=''
    if [ -n "$pg_bindir" ]; then
        candidates=$pg_bindir
    else
        candidates=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV)
        postgres=$(command -v postgres 2>/dev/null) &&
            candidates="$candidates $(dirname -- "$postgres")"
        candidates="$candidates $(echo "$postgres_files"/usr/lib/postgresql/*/bin)"
    fi
    for dir in $candidates; do
        if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] &&
            [ -x "$dir/pg_ctl" ]; then
            pg_path=$dir
            break
        fi
    done
    if [ -z "$pg_path" ]; then
        if [ -n "$pg_bindir" ]; then
            die "no initdb, pg_ctl, postgres in $pg_bindir"
        fi
        missing "PostgreSQL server" "postgresql"
        return
    fi
    version=$("$pg_path/postgres" --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')
    if [ "${version%%.*}" -lt 15 ]; then
        wrong "PostgreSQL server" "$version, but 15 or newer is needed" \
            postgresql
        pg_path=''
        return
    fi
    found "PostgreSQL server" "$version ($pg_path)"
}

# The tests also need programs of the package that a private server does not.
probe_postgres_package() {
    case $pg_path in
    "$postgres_files"/*) missing "PostgreSQL package" postgresql ;;
    esac
}

probe_perl() { # module=package ...
    for pair; do
        module=${pair%=*}
        package=${pair#*=}
        if ! command -v perl >/dev/null 2>&1; then
            missing "Perl $module" "$package"
        elif version=$(perl -M"$module" \
            -e "print $module->VERSION // 'present'" 2>/dev/null); then
            found "Perl $module" "$version"
        else
            missing "Perl $module" "$package"
        fi
    done
}

probe_all() {
    packages=''
    build_lacks=''
    test_lacks=''
    wrong_names=''
    nginx_src_path=''
    pg_path=''
    stage=build
    probe_cc
    probe_tool "make" make make "make --version"
    probe_tool "pkg-config" pkg-config pkgconf "pkg-config --version"
    probe_nginx
    probe_nginx_src
    probe_lib openssl "OpenSSL" libcrypto 3.0 libssl-dev
    probe_lib yajl "yajl" yajl 2.1 libyajl-dev
    probe_lib fcgi "libfcgi" fcgi 2.4 libfcgi-dev
    probe_lib pq "libpq" libpq 13 libpq-dev
    probe_lib sodium "libsodium" libsodium 1.0.18 libsodium-dev
    probe_lib crypt "libxcrypt" libxcrypt 4.4 libcrypt-dev
    probe_lib fido "libfido2" libfido2 1.12 libfido2-dev
    probe_lib cbor "libcbor" libcbor 0.8 libcbor-dev
    probe_lib oath "liboath" liboath 2.6 liboath-dev
    stage=run
    probe_postgres
    probe_perl JSON::PP=perl
    probe_tool "setpriv" setpriv util-linux "setpriv --version"
    probe_tool "curl" curl curl "curl --version"
    stage='test'
    probe_tests
    stage=bench
    probe_optional "wrk" wrk wrk "no make bench" "wrk --version"
    stage=release
    probe_optional "umoci" umoci umoci "no make image" "umoci --version"
    probe_optional "podman" podman podman "no make check-image" "podman --version"
    probe_optional "podman-compose" podman-compose podman-compose \
        "no make check-image" "podman-compose --version 2>/dev/null"
    for tool in reprotest disorderfs faketime; do
        probe_optional "$tool" $tool $tool "no make check-release" \
            "$tool --version"
    done
    probe_optional "debootstrap" debootstrap debootstrap \
        "no make check-deb, check-upgrades, arm64" "debootstrap --version"
    stage=fleet
    probe_optional "etcd" etcd etcd-server "no make fleet" "etcd --version"
    probe_optional "Patroni" patroni patroni "no make fleet" "patroni --version"
    probe_optional "ip" ip iproute2 "no make fleet" "ip -V"
}

probe_tests() {
    probe_lib check "Check" check 0.15 check
    probe_certificates
    probe_tool "prove" prove perl "prove --version"
    probe_tool "oathtool" oathtool oathtool "oathtool --version"
    probe_postgres_package
    probe_perl Test::More=perl Crypt::PK::RSA=libcryptx-perl \
        IO::Socket::SSL=libio-socket-ssl-perl
    probe_njs
    probe_optional "PgBouncer" pgbouncer pgbouncer \
        "no test of transaction pooling" "pgbouncer --version"
    probe_optional "Prometheus" prometheus prometheus \
        "no test that it can scrape us" "prometheus --version"
    probe_optional "Caddy" caddy caddy \
        "no test that it can ask us" "caddy version"
    probe_optional "HAProxy" haproxy haproxy \
        "no test that it can ask us" "haproxy -v"
    probe_optional "jq" jq jq "no test of a page's commands" "jq --version"
    probe_optional "clang-format" clang-format clang-format \
        "no make fmt, no make lint" "clang-format --version"
    probe_optional "clang-tidy" clang-tidy clang-tidy \
        "no make lint" "clang-tidy --version | sed -n 's/.*version/version/p'"
    probe_optional "cppcheck" cppcheck cppcheck "no make lint" \
        "cppcheck --version"
    probe_optional "shellcheck" shellcheck shellcheck \
        "make lint checks the syntax of scripts only" "shellcheck --version"
    probe_optional "valgrind" valgrind valgrind \
        "no make valgrind" "valgrind --version"
    probe_optional "git" git git "no make release" "git --version"
    probe_optional "debhelper" dh debhelper "no make deb" "dh --version"
    probe_optional "minisign" minisign minisign "no make release" "minisign -v"
    probe_fuzzer
    probe_optional "node" node nodejs \
        "no test of the HTTP API's page and client" "node --version"
    probe_optional "npm" npm npm "the same" "npm --version"
    probe_node_packages
    probe_consumers
    probe_optional "Chromium" chromium chromium \
        "no test of the playground in a browser" chromium_version
}

# -- installing --------------------------------------------------------------

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

policy=/usr/sbin/policy-rc.d
cluster_conf=/etc/postgresql-common/createcluster.d/platform-gateway.conf
made_policy=no
made_cluster_conf=no
new_services=''

# Debian's server packages start their service, and PostgreSQL's also makes a
# cluster for it.  We want the programs alone, so both are held off while the
# packages are set up, by files that are gone afterwards.
hold_services() {
    # Not one of the same name that is there: it is somebody else's.
    for service in nginx postgresql pgbouncer prometheus caddy haproxy etcd patroni; do
        case " $packages " in *" $service "* | *" $service-server "*)
            systemctl cat "$service.service" >/dev/null 2>&1 ||
                new_services="$new_services $service.service" ;;
        esac
    done
    trap release_services EXIT
    trap 'exit 130' INT TERM HUP
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        made_policy=yes
        as_root chmod 755 $policy
    fi
    if [ ! -e $cluster_conf ]; then
        as_root mkdir -p "$(dirname $cluster_conf)"
        echo "create_main_cluster = false" |
            as_root tee $cluster_conf >/dev/null
        made_cluster_conf=yes
    fi
}

release_services() {
    [ $made_policy = no ] || as_root rm -f $policy
    [ $made_cluster_conf = no ] || as_root rm -f $cluster_conf
    made_policy=no made_cluster_conf=no
    if [ -n "$new_services" ] && command -v systemctl >/dev/null 2>&1; then
        # One that there is none of would keep the rest from it.
        for service in $new_services; do
            as_root systemctl disable --now "$service" >/dev/null 2>&1 || :
        done
    fi
    new_services=''
}

# Two packages depend on more than their files need, so the files alone are taken:
# nginx-dev depends on a hundred packages, of which two build a module; PostgreSQL's
# depend on LLVM and on what makes a cluster of the system, and make run has its own.
nginx_dev=$root/build/nginx-dev
postgres_files=$root/build/postgresql

nginx_package() {
    dpkg-query -W -f '${Version}' nginx 2>/dev/null
}

fetch_files() { # directory, package ...
    dir=$1
    shift
    rm -rf "$dir"
    mkdir -p "$dir"
    (cd "$dir" && apt-get -q -o APT::Sandbox::User=root download "$@" &&
        for deb in ./*.deb; do dpkg-deb -x "$deb" . || exit; done && rm ./*.deb) ||
        die "$* could not be fetched: see above"
}

fetch_nginx_dev() {
    version=$(nginx_package) || version='none installed'
    rm -rf "$root/build/nginx"
    # apt lists what it may not be able to fetch, where the network is down.
    apt-cache show "nginx-dev=$version" >/dev/null 2>&1 ||
        die "no nginx-dev of the version of the package nginx ($version);" \
            "give nginx's sources by --with-nginx-src"
    fetch_files "$nginx_dev" "nginx-dev=$version"
    echo "$version" >"$nginx_dev/version"
}

# The versioned package that Debian's postgresql stands for.
postgres_package() {
    apt-cache depends postgresql | sed -n 's/^ *Depends: \(postgresql-[0-9]*\)$/\1/p'
}

postgres_libraries() {
    apt-cache show --no-all-versions "$(postgres_package)" | sed -n 's/^Depends: //p' |
        tr ',' '\n' | sed -n 's/^ *\(lib[^ ]*\).*/\1/p' | grep -v '^lib\(llvm\|xslt\)'
}

fetch_postgres() {
    server=$(postgres_package)
    fetch_files "$postgres_files" "$server" "postgresql-client-${server##*-}"
    # Without LLVM a server that finds this library fails its first long query.
    rm -rf "$postgres_files"/usr/lib/postgresql/*/lib/llvmjit* \
        "$postgres_files"/usr/lib/postgresql/*/lib/bitcode
}

# Not every Debian has all that some tests use.
known() { # package ...
    for package; do
        case " $optional " in
        *" $package "*) apt-cache show "$package" >/dev/null 2>&1 || {
            echo "configure.sh: no package $package here: its tests are skipped" >&2
            continue
        } ;;
        esac
        echo "$package"
    done
}

install_missing() {
    # shellcheck disable=SC2086
    packages=$(printf '%s\n' $packages | sort -u | tr '\n' ' ')
    command -v apt-get >/dev/null 2>&1 ||
        die "installing needs apt-get; install by hand: $packages"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null 2>&1; then
        die "installing needs root or sudo; install by hand: $packages"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update ||
        die "apt-get update failed"
    # shellcheck disable=SC2086
    packages=$(known $packages | tr '\n' ' ')
    lacking=" $packages"
    packages=$(echo "$packages" | sed 's/nginx-dev/libpcre2-dev zlib1g-dev/')
    case $install in
    *test*) lacking=$(echo "$lacking" | sed 's/ postgresql / /') ;;
    esac
    case $lacking in
    *" postgresql "*)
        packages="$(echo " $packages" | sed 's/ postgresql / /')$(postgres_libraries |
            tr '\n' ' ')" ;;
    esac
    echo "Installing: $packages"
    hold_services
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o Dpkg::Use-Pty=0 install --no-install-recommends $packages ||
        die "apt-get install failed"
    release_services
    case $lacking in
    *nginx-dev*) fetch_nginx_dev ;;
    esac
    case $lacking in
    *" postgresql "*) fetch_postgres ;;
    esac
}

install_node_packages() {
    command -v npm >/dev/null 2>&1 || return 0
    echo "Installing: the packages of t/node"
    (cd "$root/t/node" && npm ci --no-progress) ||
        die "npm ci failed in t/node: see above; without these packages make check" \
            "has no test of the client and the playground"
}

# -- main ----------------------------------------------------------------------

if [ -n "$install" ]; then
    quiet=yes
    probe_all
    [ -z "$packages" ] || install_missing
    case $node_packages$install in
    no*test*) install_node_packages ;;
    esac
    quiet=no
fi

echo "Looking for what is needed:"
later=''
probe_all
say_later

if [ -n "$build_lacks$wrong_names" ]; then
    {
        echo
        [ -z "$wrong_names" ] || echo "Unusable:$wrong_names (see above)."
        if [ -n "$build_lacks" ]; then
            # shellcheck disable=SC2086
            printf '%s\n' $build_lacks | sort -u | tr '\n' ' ' |
                sed 's/^/Missing Debian packages: /; s/ $//'
            echo
            echo "Run ./configure.sh --install-deps to install them."
        fi
    } >&2
    exit 1
fi

if [ -z "$sysconfdir" ]; then
    case $prefix in
    /usr | /usr/local) sysconfdir=/etc ;;
    *) sysconfdir=$prefix/etc ;;
    esac
fi

for path in "$root" "$prefix" "$sysconfdir" "$nginx_path" "$nginx_modules" \
    "$nginx_src_path" "$pg_path"; do
    plain_path "$path" ||
        die "'$path': make cannot handle a space or special character in it"
done

mkdir -p "$root/build"
cat >"$root/build/config.mk.new" <<CONFIG
# Written by configure.sh; run it again rather than edit.
CC := $cc
USER_CFLAGS := ${CFLAGS:-}
USER_LDFLAGS := ${LDFLAGS:-}

OPENSSL_CFLAGS := $openssl_cflags
OPENSSL_LIBS := $openssl_libs
YAJL_CFLAGS := $yajl_cflags
YAJL_LIBS := $yajl_libs
FCGI_CFLAGS := $fcgi_cflags
FCGI_LIBS := $fcgi_libs
PQ_CFLAGS := $pq_cflags
PQ_LIBS := $pq_libs
SODIUM_CFLAGS := $sodium_cflags
SODIUM_LIBS := $sodium_libs
CRYPT_CFLAGS := $crypt_cflags
CRYPT_LIBS := $crypt_libs
FIDO_CFLAGS := $fido_cflags $cbor_cflags
FIDO_LIBS := $fido_libs $cbor_libs
OATH_CFLAGS := $oath_cflags
OATH_LIBS := $oath_libs
CHECK_CFLAGS := $check_cflags
CHECK_LIBS := $check_libs

NGINX := $nginx_path
NGINX_VERSION := $nginx_version
NGINX_SRC := $nginx_src_path
NGINX_MODULES_DIR := $nginx_modules
PG_BINDIR := $pg_path
TEST_LACKS := ${test_lacks# }

PREFIX ?= $prefix
SYSCONFDIR ?= $sysconfdir
CONFIG

# Unchanged settings keep their time stamp, so that nothing is rebuilt.
if cmp -s "$root/build/config.mk.new" "$root/build/config.mk"; then
    rm "$root/build/config.mk.new"
else
    mv "$root/build/config.mk.new" "$root/build/config.mk"
fi

echo
echo "Wrote build/config.mk.  Next: make run (start everything), make check" \
    "(all tests), make help."
