// Boost.Beast in a thread of its own, in which everything of this file but push() and an answer's beginning
// happens: a coroutine for each connection.
#include "mpi/debug/web/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include "common/fd.h"

namespace cairn::mpi::debug::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;
using boost::system::error_code;
using nlohmann::json;

constexpr std::size_t most_connections = 64;
constexpr std::uint32_t most_header = 16U << 10;
constexpr std::uint64_t most_body = 64U << 10;
constexpr auto patience = std::chrono::seconds(30);  // with a connection that says nothing
constexpr auto heartbeat = std::chrono::seconds(15);
constexpr std::size_t most_kept = 300;         // events for those who come later
constexpr std::size_t most_behind = 8U << 20;  // bytes that a page may be slow to take

// 128 bits from the kernel.
Result<std::string> random_word() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return fail_errno("random numbers");
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// In a time that doesn't tell how much of it was right.
bool same_secret(std::string_view one, std::string_view other) {
    if (one.size() != other.size()) return false;
    unsigned differs = 0;
    for (std::size_t i = 0; i < one.size(); ++i) differs |= static_cast<unsigned>(one[i] ^ other[i]);
    return differs == 0;
}

void put_before_end_of_tag(std::string& page, std::string_view tag, const std::string& attribute) {
    for (std::size_t at = page.find(tag); at != std::string::npos; at = page.find(tag, at + tag.size()))
        page.insert(at + tag.size() - 1, attribute);
}

std::string dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// An open page, as the events for it that aren't on their way yet.
struct Listener {
    explicit Listener(asio::io_context& io) : more(io) {}
    std::deque<std::string> waiting;
    std::size_t bytes = 0;
    bool lost = false;  // too slow: it has to come again
    asio::steady_timer more;
};

class BeastServer final : public Server {
  public:
    BeastServer(std::string token, std::string nonce, Handler handler)
        : token_(std::move(token)), nonce_(std::move(nonce)), handler_(std::move(handler)), acceptor_(io_) {}
    ~BeastServer() override {
        if (!thread_.joinable()) return;
        asio::co_spawn(io_, finish(), asio::detached);
        thread_.join();
    }

    Result<> listen(unsigned short port, std::string page);
    [[nodiscard]] std::string url() const override {
        return fmt::format("http://127.0.0.1:{}/{}/", port_, token_);
    }
    void push(const std::string& event, const json& data, bool keep_last) override;
    void repeat(std::function<bool()> what) override;

  private:
    asio::awaitable<void> accept();
    asio::awaitable<void> converse(tcp::socket socket);
    asio::awaitable<Response> respond(const Request& request, const std::string& what);
    asio::awaitable<void> tell_events(beast::tcp_stream& stream);
    asio::awaitable<void> keep_repeating(std::function<bool()> what);
    asio::awaitable<void> finish();
    void tell_all(const std::string& event, const std::string& text, bool keep_last);
    [[nodiscard]] bool is_this_host(std::string_view name) const;
    // Why this request is refused, if it is; `what`: what it asks for, behind the token.
    [[nodiscard]] std::optional<Response> refused(const Request& request, std::string& what) const;
    void add_headers(Response& response, bool keep_alive) const;

    std::string token_, nonce_, page_;
    Handler handler_;
    unsigned short port_ = 0;
    // What a coroutine uses lives longer than those that end with their io_context.
    std::size_t connections_ = 0;
    std::list<Listener*> listeners_;
    std::map<std::string, std::string> last_;
    std::deque<std::string> kept_;
    asio::io_context io_{1};
    tcp::acceptor acceptor_;
    std::thread thread_;
};

Response text_response(http::status status, const std::string& text) {
    Response response(status, 11);
    response.set(http::field::content_type, "text/plain; charset=utf-8");
    response.body() = text + "\n";
    return response;
}

Response json_response(unsigned status, const json& body) {
    Response response(static_cast<http::status>(status), 11);
    response.set(http::field::content_type, "application/json");
    response.body() = dump(body) + "\n";
    return response;
}

Result<> BeastServer::listen(unsigned short port, std::string page) {
    page_ = std::move(page);
    put_before_end_of_tag(page_, "<script>", fmt::format(" nonce=\"{}\"", nonce_));
    put_before_end_of_tag(page_, "<style>", fmt::format(" nonce=\"{}\"", nonce_));
    // Made by hand, so that no rank inherits it.
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return fail_errno("a socket");
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return fail_code(ExitCode::usage,
                         "port {} of 127.0.0.1: {}. Another --port, or none, which takes any", port,
                         std::strerror(errno));
    socklen_t size = sizeof address;
    if (::listen(socket.get(), 64) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        return fail_errno("listening on 127.0.0.1");
    port_ = ntohs(address.sin_port);
    acceptor_.assign(tcp::v4(), socket.release());
    asio::co_spawn(io_, accept(), asio::detached);
    // Signals are for the thread that runs ranks.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { io_.run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return {};
}

asio::awaitable<void> BeastServer::accept() {
    for (;;) {
        error_code failed;
        auto token = asio::redirect_error(asio::use_awaitable, failed);
        co_await acceptor_.async_wait(tcp::acceptor::wait_read, token);
        if (failed) co_return;
        const int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 || connections_ >= most_connections) {
            const bool full = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
            if (fd >= 0) ::close(fd);
            if (!full) continue;
            asio::steady_timer pause(io_, std::chrono::milliseconds(100));
            co_await pause.async_wait(token);
            continue;
        }
        tcp::socket socket(io_, tcp::v4(), fd);
        asio::co_spawn(io_, converse(std::move(socket)), asio::detached);
    }
}

bool BeastServer::is_this_host(std::string_view name) const {
    return name == fmt::format("127.0.0.1:{}", port_) || name == fmt::format("localhost:{}", port_);
}

std::optional<Response> BeastServer::refused(const Request& request, std::string& what) const {
    if (request.count(http::field::host) != 1 || !is_this_host(request[http::field::host]))
        return text_response(http::status::forbidden,
                             fmt::format("refused: the debugger is asked for by the name 127.0.0.1:{0} or "
                                         "localhost:{0} only. Through ssh forward the same port: "
                                         "ssh -L {0}:127.0.0.1:{0}",
                                         port_));
    const std::string_view path = request.target();
    const std::size_t end = path.find('/', 1);
    const std::string_view token = path.substr(std::min<std::size_t>(1, path.size()), end - 1);
    if (end == std::string_view::npos || !same_secret(token, token_))
        return text_response(http::status::forbidden,
                             "refused: this isn't the address that cairn mpi debug --web has printed");
    what = path.substr(end + 1);
    // A page of another site can't know the token; if it does, it still may not use it.
    const std::string_view origin = request[http::field::origin];
    constexpr std::string_view scheme = "http://";
    if (!origin.empty() && !(origin.starts_with(scheme) && is_this_host(origin.substr(scheme.size()))))
        return text_response(http::status::forbidden, "refused: this is asked for by a page of another site");
    const bool get = what.empty() || what == "events";
    if (request.method() != (get ? http::verb::get : http::verb::post)) {
        auto response = text_response(http::status::method_not_allowed, get ? "GET it" : "POST it");
        response.set(http::field::allow, get ? "GET" : "POST");
        return response;
    }
    return std::nullopt;
}

void BeastServer::add_headers(Response& response, bool keep_alive) const {
    response.set(http::field::cache_control, "no-store");
    response.set("Referrer-Policy", "no-referrer");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    response.keep_alive(keep_alive);
    response.prepare_payload();
}

asio::awaitable<Response> BeastServer::respond(const Request& request, const std::string& what) {
    if (what.empty()) {
        Response page(http::status::ok, 11);
        page.set(http::field::content_type, "text/html; charset=utf-8");
        page.set("Content-Security-Policy",
                 fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src "
                             "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                             nonce_));
        page.body() = page_;
        co_return page;
    }
    const json given = json::parse(request.body(), nullptr, false);
    if (!given.is_object())
        co_return json_response(400, {{"ok", false}, {"error", "the request's body is no JSON object"}});
    // Whoever answers may do so later than this coroutine lives, or never.
    struct Pending {
        explicit Pending(asio::io_context& io) : done(io, asio::steady_timer::time_point::max()) {}
        std::optional<Reply> reply;
        asio::steady_timer done;
    };
    const auto pending = std::make_shared<Pending>(io_);
    handler_(what, given, [this, pending](Reply reply) {
        asio::post(io_, [pending, reply = std::move(reply)] {
            pending->reply = reply;
            pending->done.cancel();
        });
    });
    error_code woken;
    auto token = asio::redirect_error(asio::use_awaitable, woken);
    while (!pending->reply) co_await pending->done.async_wait(token);
    co_return json_response(pending->reply->status, pending->reply->body);
}

asio::awaitable<void> BeastServer::converse(tcp::socket socket) {
    ++connections_;
    const std::shared_ptr<void> counted(nullptr, [this](void*) { --connections_; });
    beast::tcp_stream stream(std::move(socket));
    beast::flat_buffer buffer;
    for (;;) {
        http::request_parser<http::string_body> parser;
        parser.header_limit(most_header);
        parser.body_limit(most_body);
        stream.expires_after(patience);
        error_code failed;
        auto token = asio::redirect_error(asio::use_awaitable, failed);
        co_await http::async_read(stream, buffer, parser, token);
        const bool no_http = failed &&
                             failed.category() == http::make_error_code(http::error::bad_method).category() &&
                             failed != http::error::end_of_stream && failed != http::error::partial_message;
        if (failed && !no_http) co_return;
        Response response;
        bool keep_alive = false;
        if (no_http) {
            response = text_response(http::status::bad_request, "refused: " + failed.message());
        } else {
            const Request request = parser.release();
            keep_alive = request.keep_alive();
            std::string what;
            auto no = refused(request, what);
            // Nobody waits for a movement of the debugger's for too long, so that this doesn't expire.
            stream.expires_never();
            if (!no && what == "events") {
                co_await tell_events(stream);
                co_return;
            }
            if (no) {
                response = std::move(*no);
                keep_alive = false;
            } else {
                response = co_await respond(request, what);
            }
        }
        add_headers(response, keep_alive);
        stream.expires_after(patience);
        failed = {};
        co_await http::async_write(stream, response, token);
        if (failed || !keep_alive) break;
    }
    error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

// Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
asio::awaitable<void> BeastServer::tell_events(beast::tcp_stream& stream) {
    Listener self(io_);
    for (const std::string& text : kept_) self.waiting.push_back(text);
    for (const auto& [event, text] : last_) self.waiting.push_back(text);
    for (const std::string& text : self.waiting) self.bytes += text.size();
    listeners_.push_back(&self);
    const std::shared_ptr<void> listening(nullptr, [this, &self](void*) { listeners_.remove(&self); });
    std::string text =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nReferrer-Policy: "
        "no-referrer\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: "
        "same-origin\r\nConnection: close\r\n\r\nretry: 1000\n\n";
    for (;;) {
        error_code failed;
        auto token = asio::redirect_error(asio::use_awaitable, failed);
        stream.expires_after(patience);
        co_await asio::async_write(stream, asio::buffer(text), token);
        if (failed || self.lost) co_return;
        text.clear();
        if (self.waiting.empty()) {
            self.more.expires_after(heartbeat);
            co_await self.more.async_wait(token);
            if (self.waiting.empty()) text = ":\n\n";  // a comment: is the page still there?
        }
        for (; !self.waiting.empty(); self.waiting.pop_front()) text += self.waiting.front();
        self.bytes = 0;
    }
}

// What has been pushed last is still sent to who takes it at once.
asio::awaitable<void> BeastServer::finish() {
    asio::steady_timer pause(io_);
    for (int left = 20; left > 0; --left) {
        const bool open =
            std::ranges::any_of(listeners_, [](const Listener* each) { return !each->waiting.empty(); });
        if (!open) left = 1;
        pause.expires_after(std::chrono::milliseconds(10));
        co_await pause.async_wait(asio::use_awaitable);
    }
    io_.stop();
}

void BeastServer::tell_all(const std::string& event, const std::string& text, bool keep_last) {
    if (keep_last)
        last_[event] = text;
    else
        kept_.push_back(text);
    if (kept_.size() > most_kept) kept_.pop_front();
    for (Listener* each : listeners_) {
        each->bytes += text.size();
        each->lost = each->lost || each->bytes > most_behind;
        if (!each->lost) each->waiting.push_back(text);
        each->more.cancel();
    }
}

void BeastServer::push(const std::string& event, const json& data, bool keep_last) {
    std::string text = fmt::format("event: {}\ndata: {}\n\n", event, dump(data));
    asio::post(io_, [this, event, text = std::move(text), keep_last] { tell_all(event, text, keep_last); });
}

asio::awaitable<void> BeastServer::keep_repeating(std::function<bool()> what) {
    asio::steady_timer pause(io_);
    error_code failed;
    auto token = asio::redirect_error(asio::use_awaitable, failed);
    while (what()) {
        pause.expires_after(std::chrono::milliseconds(50));
        co_await pause.async_wait(token);
    }
}

void BeastServer::repeat(std::function<bool()> what) {
    asio::post(io_,
               [this, what = std::move(what)] { asio::co_spawn(io_, keep_repeating(what), asio::detached); });
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(unsigned short port, std::string page, Handler handler) {
    auto token = TRY(random_word());
    auto nonce = TRY(random_word());
    auto server = std::make_unique<BeastServer>(std::move(token), std::move(nonce), std::move(handler));
    CHECK_OK(server->listen(port, std::move(page)));
    return server;
}

}  // namespace cairn::mpi::debug::web
