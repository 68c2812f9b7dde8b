# Four methods of different shares of the processor time, for the seconds of the first argument.

module Shares
  def self.first
    number = 0
    number += 1 while number < 10_000
  end

  def self.second
    number = 0
    number += 1 while number < 20_000
  end

  def self.third
    number = 0
    number += 1 while number < 30_000
  end

  def self.fourth
    number = 0
    number += 1 while number < 40_000
  end

  def self.run
    first
    second
    third
    fourth
  end
end

$stdout.sync = true
puts 'ready'
Shares.run while true
