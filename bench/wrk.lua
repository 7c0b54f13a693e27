-- What wrk sends, and what it says at the end: one line that a program reads.
--
-- Arguments after "--" are name=value:
--
--   method=GET  body=TEXT
--   words=FILE  a line for each request in turn, which stands for the @ in the
--               body, or with auth=Bearer (or Basic) in the Authorization header
--   type=TEXT   of the body, application/json if not given
--   order=shuffled   another order than the file's
--   seconds=N   from then on nothing is sent, and what is under way is waited
--               for; everything but a 200 is wrong and ends the run
--   stop=FILE   as if they were over once there is such a file
--   chain=1     the refresh token of an answer takes the place of the word
--   once=1      no word is used twice: the last one ends the run

local ffi = require("ffi")
ffi.cdef([[
    struct bench_time { long s, ns; };
    int clock_gettime(int clock, struct bench_time *t);
    int getpid(void);
    int kill(int pid, int signal);
]])

local arg, words = {}, { "" }
local thread
begun, ended, wrong = nil, nil, nil -- done() runs elsewhere and asks for them

local function now()
    local t = ffi.new("struct bench_time")
    ffi.C.clock_gettime(1, t)
    return tonumber(t.s) + tonumber(t.ns) / 1e9
end

local function read_words()
    words = {}
    for word in io.lines(arg.words) do
        words[#words + 1] = word
    end
    if arg.order == "shuffled" then
        math.randomseed(1)
        for i = #words, 2, -1 do
            local j = math.random(i)
            words[i], words[j] = words[j], words[i]
        end
    end
end

local function build(word)
    if arg.auth then
        wrk.headers["Authorization"] = arg.auth .. " " .. word
        return wrk.format(nil, nil, nil, arg.body)
    end
    local before, after = (arg.body or ""):match("^(.-)@(.*)$")
    return wrk.format(nil, nil, nil,
        before and before .. word .. after or arg.body)
end

-- As fast as it goes: requests are made beforehand, and go round and round.
local function go_round()
    local made, last = {}, 0
    for i, word in ipairs(words) do
        made[i] = build(word)
    end

    function request()
        last = last % #made + 1
        return made[last]
    end
end

-- Each answer is looked at.
local function watch()
    local first, last, under_way = 1, #words, 0
    local looked_at = false

    local function put(word)
        last = last + 1
        words[last] = word
    end

    local function stopped()
        local file = arg.stop and io.open(arg.stop)
        return file and file:close()
    end

    local function over()
        return wrong or first > last or now() >= begun + arg.seconds
            or stopped()
    end

    function request()
        if not looked_at then -- by wrk, which does not send this one
            looked_at = true
            return build(words[1])
        end
        begun = begun or now()
        if over() then
            return "" -- and this connection waits until the end
        end
        local word = words[first]
        words[first] = nil
        first = first + 1
        under_way = under_way + 1
        if not arg.chain and not arg.once then
            put(word)
        end
        return build(word)
    end

    function response(status, headers, body)
        under_way = under_way - 1
        ended = now()
        if status ~= 200 then
            wrong = wrong or "status " .. status .. ": " .. body:sub(1, 160)
        elseif arg.chain then
            local token = body:match('"refreshToken":"([^"]*)"')
            if token then
                put(token)
            else
                wrong = wrong or "no refreshToken: " .. body:sub(1, 160)
            end
        end
        if under_way == 0 and over() then
            wrk.thread:stop()
            ffi.C.kill(ffi.C.getpid(), 2) -- wrk would sleep to the end of -d
        end
    end
end

function setup(t)
    thread = t
end

function init(args)
    for _, pair in ipairs(args) do
        local name, value = pair:match("^(%w+)=(.*)$")
        arg[name] = value
    end
    wrk.method = arg.method
    if arg.body then
        wrk.headers["Content-Type"] = arg.type or "application/json"
    end
    if arg.words then
        read_words()
    end
    if arg.seconds then
        watch()
    elseif arg.words then
        go_round()
    end
end

function done(summary, latency)
    local e = summary.errors
    local from, to = thread:get("begun"), thread:get("ended")
    local us = from and to and (to - from) * 1e6 or summary.duration
    print(string.format("BENCH requests=%d us=%d mean_us=%.1f p50_us=%d "
        .. "p99_us=%d max_us=%d connect=%d read=%d write=%d timeout=%d wrong=%s",
        summary.requests, us, latency.mean, latency:percentile(50),
        latency:percentile(99), latency.max, e.connect, e.read, e.write, e.timeout,
        (thread:get("wrong") or ""):gsub("%s+", "_")))
end
