#!/bin/sh
# vm.sh [DIR] runs the tests of limits on a machine that has cgroup v2 whole and systemd: a
# small Debian that is emulated, so that no KVM is needed. It wants root on a Debian (only
# packages are installed) and 4 GB in DIR, which is kept: what is there is used again, but
# the tests and the disk are made anew. It takes half an hour; its status is that of the tests.
set -eu
DIR=${1:-/var/tmp/berth-vm}
SRC=$(cd "$(dirname "$0")/../../.." && pwd)
PORT=${PORT:-2222}
mkdir -p "$DIR"
cd "$DIR"

apt-get install -y --no-install-recommends qemu-system-x86 debootstrap e2fsprogs openssh-client >/dev/null
if [ ! -e root/done ]; then
	rm -rf root
	debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,bubblewrap,busybox-static,procps,kmod,openssh-server "$(. /etc/os-release && echo "$VERSION_CODENAME")" root
	KERNEL=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
	apt-get download "$KERNEL"
	dpkg -x "$KERNEL"_*.deb kernel
	cp -r "$(find kernel -type d -name modules | head -1)" root/usr/lib/
	chroot root depmod "$(ls root/lib/modules)"
	ssh-keygen -q -t ed25519 -N '' -f key
	# ann has a user manager as long as she is logged in.
	chroot root useradd -m -s /bin/bash ann
	for home in root home/ann; do
		mkdir -p -m 700 root/$home/.ssh
		cp key.pub root/$home/.ssh/authorized_keys
	done
	chroot root chown -R ann /home/ann/.ssh
	echo '/dev/vda / ext4 rw 0 0' >root/etc/fstab
	echo '127.0.0.1 localhost' >root/etc/hosts
	# Without udev no device is ever announced.
	chroot root systemctl mask serial-getty@ttyS0.service getty@tty1.service systemd-networkd-wait-online.service fstrim.timer
	touch root/done
fi

# What brings the disk and the network.
MODULES="drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci_modern_dev
	drivers/virtio/virtio_pci drivers/block/virtio_blk net/core/failover drivers/net/net_failover drivers/net/virtio_net"
rm -rf initrd && mkdir -p initrd/proc initrd/dev initrd/root
cp root/bin/busybox initrd/
for m in $MODULES; do
	f=$(ls root/lib/modules/*/kernel/"$m".ko*)
	case $f in *.xz) xz -dc "$f" ;; *) cat "$f" ;; esac >"initrd/${m##*/}.ko"
done
{
	echo '#!/busybox sh'
	echo '/busybox mount -t devtmpfs d /dev; /busybox mount -t proc p /proc'
	for m in $MODULES; do echo "/busybox insmod /${m##*/}.ko"; done
	echo '/busybox mount -t ext4 /dev/vda /root; /busybox ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up; /busybox ifconfig lo 127.0.0.1 up'
	echo '/busybox umount /proc; /busybox mount -o move /dev /root/dev; exec /busybox switch_root /root /lib/systemd/systemd'
} >initrd/init
chmod +x initrd/init
(cd initrd && find . | ../root/bin/busybox cpio -o -H newc) 2>/dev/null | gzip >initrd.gz

mkdir -p root/opt/t
(cd "$SRC" && CGO_ENABLED=0 go test -c -ldflags='-s -w' -o "$DIR/root/opt/t/" ./internal/cgroup ./internal/place ./backend/process)
rm -f disk && truncate -s 3G disk && mke2fs -q -t ext4 -d root disk

qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 3072 -display none -monitor none -serial file:console \
	-kernel kernel/boot/vmlinuz-* -initrd initrd.gz -append 'console=ttyS0 quiet loglevel=1 systemd.unified_cgroup_hierarchy=1' \
	-drive file=disk,format=raw,if=virtio -nic user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:$PORT-:22 &
VM=$!
trap 'kill $VM' EXIT
in_vm() { # USER COMMAND
	ssh -q -i key -p $PORT -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=10 "$1@127.0.0.1" "$2"
}
until in_vm root true; do
	kill -0 $VM
	sleep 2
done
status=0
for user in root ann; do
	in_vm $user 'cd /tmp && stat -fc %T /sys/fs/cgroup && cat /proc/self/cgroup &&
		/opt/t/cgroup.test -test.v && /opt/t/process.test -test.v -test.run TestLimits &&
		/opt/t/process.test -test.v -test.parallel 1 -test.timeout 60m -test.run "TestConform/(none|guard)/plain/suite/cases/(Limit|OOM|Terminate)"' || status=1
done
exit $status
