// Work that blocks on the disk, in a thread of its own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <optional>

namespace cairn::coordinator {

// Runs something that blocks on the disk in `pool` and brings its result back. `work` is given by reference
// and has to be a named object: g++ 12 destroys temporaries of a co_await expression twice.
template <class Value>
boost::asio::awaitable<Value> elsewhere(boost::asio::thread_pool& pool, const std::function<Value()>& work) {
    namespace asio = boost::asio;
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer finished(executor, asio::steady_timer::time_point::max());
    std::optional<Value> result;
    asio::post(pool, [&] {
        result.emplace(work());
        asio::post(executor, [&] { finished.cancel(); });
    });
    boost::system::error_code cancelled;
    co_await finished.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    co_return std::move(*result);
}

}  // namespace cairn::coordinator
