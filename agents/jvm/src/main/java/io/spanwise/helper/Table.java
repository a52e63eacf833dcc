package io.spanwise.helper;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/**
 * The table that the kernel side reads (docs/task-table.md): memory of this process with a file
 * name. The file is deleted, and the name exists only in the mapping.
 */
final class Table {
  private static final int BITS = 14;
  private static final int SLOT_BYTES = 256;
  private static final int PROBES = 4;
  private static final int HOPS = 13;
  /** Where in a slot the current span is: after the last hop. */
  private static final int SPAN = 16 + HOPS * 16;
  private static final int KEYS = 64;
  private static final int PLACES = (1 << BITS) + PROBES;
  private static final int SLOTS = (KEYS + PLACES * 8 + SLOT_BYTES - 1) / SLOT_BYTES * SLOT_BYTES;
  private static final int BYTES = SLOTS + PLACES * SLOT_BYTES;
  private static final long SPREAD = 0x9e3779b97f4a7c15L;
  private static final VarHandle WORD =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  private final MappedByteBuffer memory;

  private Table(MappedByteBuffer memory) {
    this.memory = memory;
  }

  /** In shared memory rather than on a disk, if the system has it. */
  static Table open() throws IOException {
    IOException refused = null;
    for (String directory : new String[] {"/dev/shm", System.getProperty("java.io.tmpdir"), "/tmp"}) {
      try {
        return open(Path.of(directory));
      } catch (IOException failure) {
        refused = failure;
      }
    }
    throw refused;
  }

  private static Table open(Path directory) throws IOException {
    String name = "spanwise-tasks-1." + ProcessHandle.current().pid() + "." + Long.toHexString(System.nanoTime());
    Path file = directory.resolve(name);
    var options = Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE);
    var owner = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
    try (FileChannel channel = FileChannel.open(file, options, owner)) {
      // Allocates the space now. If there is none, that must not be discovered during a thread's
      // work.
      ByteBuffer zeros = ByteBuffer.allocate(BYTES);
      while (zeros.hasRemaining()) {
        channel.write(zeros);
      }
      MappedByteBuffer memory = channel.map(FileChannel.MapMode.READ_WRITE, 0, BYTES);
      memory.order(ByteOrder.nativeOrder());
      // The kernel side cannot wait for a page fault.
      memory.load();
      memory.putInt(8, BITS).putInt(12, SLOT_BYTES).putInt(16, KEYS).putInt(20, SLOTS).putInt(24, SPAN);
      byte[] magic = {'s', 'p', 'a', 'n', 'w', 'i', 's', 'e'};
      for (int index = 0; index < magic.length; index++) {
        memory.put(index, magic[index]);
      }
      return new Table(memory);
    } finally {
      Files.deleteIfExists(file);
    }
  }

  /** Takes a slot for a key; -1 if there is none. */
  int take(long key) {
    int place = (int) (key * SPREAD >>> (64 - BITS));
    for (int index = place; index < place + PROBES; index++) {
      // The slot of an earlier thread with this id that ended without returning it.
      if ((long) WORD.getVolatile(memory, KEYS + index * 8) == key) {
        clear(index);
        return index;
      }
    }
    for (int index = place; index < place + PROBES; index++) {
      if ((long) WORD.getVolatile(memory, KEYS + index * 8) == 0) {
        clear(index);
        if (WORD.compareAndSet(memory, KEYS + index * 8, 0L, key)) {
          return index;
        }
      }
    }
    return -1;
  }

  /** Returns a slot. */
  void give(int slot) {
    clear(slot);
    WORD.setVolatile(memory, KEYS + slot * 8, 0L);
  }

  private void clear(int slot) {
    memory.putLong(SLOTS + slot * SLOT_BYTES, 0);
    writeSpan(slot, 0);
  }

  /** Sets the id of the span in which the slot's owner works; 0 for none. */
  void writeSpan(int slot, long span) {
    memory.putLong(SLOTS + slot * SLOT_BYTES + SPAN, span);
  }

  /** Sets the work item of the slot's owner. */
  void write(int slot, Work work) {
    int at = SLOTS + slot * SLOT_BYTES;
    if (work == null) {
      memory.putLong(at, 0);
      return;
    }
    int hop = 0;
    for (Work from = work; from.origin != null && hop < HOPS; from = from.origin) {
      memory.putLong(at + 16 + hop * 16, from.nano);
      memory.putLong(at + 24 + hop * 16, from.origin.number);
      hop++;
    }
    memory.putLong(at + 8, hop);
    memory.putLong(at, work.number);
  }
}
