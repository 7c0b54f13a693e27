-- What wrk sends, and what it says at the end: one line that a program reads.
--
-- Arguments after "--": the method; a file with a token a line, each request
-- taking the next one; "shuffled" for another order than the file's.

local requests, last = {}, 0

local function shuffle(list)
    math.randomseed(1)
    for i = #list, 2, -1 do
        local j = math.random(i)
        list[i], list[j] = list[j], list[i]
    end
end

function init(args)
    wrk.method = args[1]
    if not args[2] then
        return
    end

    for token in io.lines(args[2]) do
        wrk.headers["Authorization"] = "Bearer " .. token
        requests[#requests + 1] = wrk.format()
    end
    if args[3] == "shuffled" then
        shuffle(requests)
    end

    function request()
        last = last % #requests + 1
        return requests[last]
    end
end

function done(summary, latency)
    local e = summary.errors
    print(string.format("BENCH requests=%d us=%d p50=%d p99=%d connect=%d "
        .. "read=%d write=%d timeout=%d status=%d",
        summary.requests, summary.duration, latency:percentile(50),
        latency:percentile(99), e.connect, e.read, e.write, e.timeout,
        e.status))
end
