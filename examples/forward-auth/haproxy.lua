-- Asks the gateway before HAProxy passes a request on (haproxy.cfg calls it).

-- The service gets these from the gateway alone.
local copied = { "X-Account-Id", "X-Account-Type", "X-Session-Id", "X-Token-Type",
    "X-Token-Scope", "X-Workspace-Id", "X-Tenant-Id", "X-Member-Id", "X-Active-Branch-Id",
    "X-Branch-Ids", "X-Roles", "X-Request-Id", "X-Correlation-Id" }

-- What the gateway reads of a client's request.
local asked = { "Authorization", "DPoP", "Cookie", "Origin", "Sec-Fetch-Site", "Sec-WebSocket-Key",
    "Sec-WebSocket-Protocol", "Access-Control-Request-Method",
    "Access-Control-Request-Headers", "X-Request-Id", "X-Correlation-Id" }

-- HAProxy writes the length and the connection's headers itself.
local left = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true }

local replaced = {}
for _, name in ipairs(copied) do
    replaced[name:lower()] = true
end

core.register_action("judge", { "http-req" }, function(txn, url)
    local client, headers = txn.http:req_get_headers(), {}
    for _, name in ipairs(asked) do
        headers[name] = client[name:lower()]
    end
    headers["X-Forwarded-Method"] = { txn.sf:method() }
    headers["X-Forwarded-Uri"] = { txn.sf:pathq() }

    -- Longer than platform_gateway_key_wait; in ms.
    local answer = core.httpclient():get { url = url, headers = headers, timeout = 5000 }

    if answer.status ~= 204 then
        local reply = txn:reply { status = answer.status, body = answer.body }
        for name, values in pairs(answer.headers) do
            for _, value in pairs(left[name] and {} or values) do
                reply:add_header(name, value)
            end
        end
        txn:done(reply)
    end

    -- A service may read X_Account_Id as X-Account-Id.
    for name in pairs(client) do
        if replaced[name:gsub("[^a-z0-9]", "-")] then
            txn.http:req_del_header(name)
        end
    end
    -- And a proxy behind this one removes what Connection names.
    txn.http:req_rep_value("Connection", "^[Xx]-.*", "none")
    for _, name in ipairs(copied) do
        local value = answer.headers[name:lower()]
        if value and value[0] ~= "" then
            txn.http:req_set_header(name, value[0])
        end
    end
    txn:set_var("txn.judged", true)
end, 1)
