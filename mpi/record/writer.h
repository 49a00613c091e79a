// Writes the record of one process while its program runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "mpi/record/format.h"

namespace cairn::mpi {

// What is put goes into a shared mapping of DIR/tail.N first: it is there when the program is killed at the
// next instruction. When a column's room is used up, all of them go compressed to the end of DIR/rank.N as
// one block. Two files, so that a small record is small: the tail goes when the program ends as it should.
//
// The process may be restarted from a checkpoint, whose memory is older than what the files have then: so
// memory of the process's own has it all once more, and the files are brought back to that with the next
// call.
//
// After a failed write (disk full) failure() says why, the record is good up to there, and put does nothing.
// For one thread.
class RecordWriter {
  public:
    // The two files must not exist.
    [[nodiscard]] static Result<std::unique_ptr<RecordWriter>> create(const std::string& folder,
                                                                      const Identity& identity);
    ~RecordWriter();
    RecordWriter(const RecordWriter&) = delete;
    RecordWriter& operator=(const RecordWriter&) = delete;

    void put(Column column, std::uint64_t value) {
        Room& room = rooms_[static_cast<std::size_t>(column)];
        std::uint32_t used = tail_->used[static_cast<std::size_t>(column)];
        if (room.size - used < 10) {
            flush();
            used = tail_->used[static_cast<std::size_t>(column)];
        }
        while (value >= 0x80) {
            set(room.begin[used++], static_cast<std::uint8_t>(value | 0x80));
            value >>= 7;
        }
        set(room.begin[used++], static_cast<std::uint8_t>(value));
        std::atomic_signal_fence(std::memory_order_release);  // the bytes before their number
        set(tail_->used[static_cast<std::size_t>(column)], used);
    }
    void put_bytes(Column column, const void* data, std::size_t size);

    // Counts that must be there when the program is killed.
    void begin() {
        if (in_file(tail_->begun) != tail_->begun || in_file(tail_->generation) != tail_->generation)
            [[unlikely]]
            go_back();
        set(tail_->begun, tail_->begun + 1);
    }
    void end() { set(tail_->done, tail_->begun); }
    [[nodiscard]] std::uint64_t begun() const { return tail_->begun; }
    void no() { set(tail_->falses, tail_->falses + 1); }
    void yes() {
        put(Column::falses, tail_->falses);
        set(tail_->falses, std::uint64_t{0});
    }
    void expected() { set(tail_->hits, tail_->hits + 1); }
    void unexpected() {
        put(Column::hits, tail_->hits);
        set(tail_->hits, std::uint64_t{0});
    }

    // The program went through MPI_Finalize: writes what is left and removes the tail.
    void close();
    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] std::uint64_t bytes_written() const { return bytes_; }
    // After fork in the child: the files are the parent's.
    void forget();

  private:
    struct Room {
        std::uint8_t* begin = nullptr;
        std::uint32_t size = 0;
    };
    RecordWriter() = default;
    // What of the own memory has this in the mapping of the file.
    template <class T>
    [[nodiscard]] T& in_file(T& field) const {
        return *reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(&field) + mapped_);
    }
    template <class T>
    void set(T& field, T value) {
        field = value;
        in_file(field) = value;
    }
    void go_back();
    void unmap();
    void flush(std::uint32_t flags = 0);
    void give_up(std::string why);

    Fd fd_;
    std::string path_, tail_path_;
    TailHeader* tail_ = nullptr;  // in own memory, and so are rooms_
    std::uintptr_t mapped_ = 0;   // how far the mapping of the file is from there; 0: it has gone
    std::size_t tail_bytes_ = 0;
    Room rooms_[columns];
    std::uint32_t blocks_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<std::uint8_t> packed_;
    std::string failure_;
};

}  // namespace cairn::mpi
