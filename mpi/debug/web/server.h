// The web server of `cairn mpi debug --web`: it serves one page, hands on what the page asks for, and pushes
// what happens to all who have the page open. It knows nothing of ranks.
//
// It listens on 127.0.0.1 only. Whoever asks must name this host and port (a page of another site that has
// its own name point here doesn't), and have the token, which is in the address that is printed.
// docs/decisions/0042-web-page.md says what that keeps out.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"

namespace cairn::mpi::debug::web {

// `body` is JSON, whatever the status.
struct Reply {
    unsigned status = 200;
    nlohmann::json body;
};
// From any thread, once.
using Respond = std::function<void(Reply)>;

class Server {
  public:
    // Called in the server's thread, for each POST of a JSON object: what is asked (the last part of the
    // path) and the object. The answer may come later.
    using Handler =
        std::function<void(const std::string& what, const nlohmann::json& given, Respond respond)>;

    // `port`: 0 takes any that is free. The page gets its nonce in each <script> and <style>. Code usage: the
    // port is somebody's.
    [[nodiscard]] static Result<std::unique_ptr<Server>> start(unsigned short port, std::string page,
                                                               Handler handler);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    virtual ~Server() = default;

    [[nodiscard]] virtual std::string url() const = 0;
    // To all pages, from any thread. Who comes later is told the last of those with `keep_last`, and some
    // hundred of the others, in their order.
    virtual void push(const std::string& event, const nlohmann::json& data, bool keep_last) = 0;
    // Calls it in the server's thread now and every 50 ms, as long as it returns true.
    virtual void repeat(std::function<bool()> what) = 0;

  protected:
    Server() = default;
};

}  // namespace cairn::mpi::debug::web
